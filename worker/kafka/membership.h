#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "worker/delivery/feed.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// What readiness, `/subscriptions` and metrics want to know about the membership.
struct MembershipState {
  bool subscribed = false;  // there is something to subscribe to
  bool joined = false;      // the coordinator has given us an assignment (it may be empty) and has not taken it back
  bool fenced = false;      // a process with the same instance name has taken our place
  std::vector<delivery::TopicPartition> owned;  // sorted
  std::uint64_t rebalances = 0;
  std::uint64_t lost_assignments = 0;
  std::string last_error;  // empty: none yet
};

/// This worker as a member of the fleet's consumer group `<fleet>`: the one data consumer, on a thread of its own.
///
/// Decides nothing but who owns which partition; positions live in OffsetStore. Each owned partition gets a
/// PartitionFeed, whose queue never mixes with the others.
/// Also the guard that says whether this worker is still a member (see MembershipGuard): after Suspect the coordinator
/// is asked until it knows us and the group is stable, or the assignment is lost and made anew.
///
/// Threads  Subscribe, state and the guard: any. Start and Stop: the owner. The listener is called on the membership
///          thread.
/// Errors   Brokers away, unknown topics, refused credentials: logged, shown in state().last_error, tried again for
/// ever.
///          Being fenced by a namesake ends the membership: everything is given up as lost, then `on_fenced`. Once
///          nobody in the group has the name any more it begins anew.
/// Lifetime The listener and whatever the callbacks use outlive Stop. Feeds may be held longer but read nothing any
/// more.
class Membership final : public delivery::MembershipGuard {
 public:
  /// Null and `error` set when the client cannot be made (see ClientConfig::Faults). Opens no connection yet.
  static std::unique_ptr<Membership> Create(const ClientConfig& config, std::string& error);
  ~Membership() override;  // stops
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Starts the thread. `on_fenced` comes on it, each time.
  void Start(delivery::AssignmentListener& listener, std::function<void(std::string reason)> on_fenced);

  /// From now on exactly these topics; an empty set leaves the subscription. A set equal to the current one does
  /// nothing.
  void Subscribe(std::set<std::string> topics);

  /// A static member keeps its place in the group when it stops, until its session times out; a dynamic one leaves.
  enum class Farewell : std::uint8_t { kByMembership, kLeave };

  /// Gives every partition back (OnRevoked), closes the consumer and ends the thread. With kLeave a static member
  /// leaves too, so that the others take its partitions at once. A close that has not ended `within` (the listener's
  /// own time included), because the group's coordinator is away, is logged and the client abandoned. Idempotent.
  void Stop(Farewell farewell = Farewell::kByMembership, std::chrono::milliseconds within = std::chrono::seconds(25));

  [[nodiscard]] MembershipState state() const;

  [[nodiscard]] bool Confirmed() const override;
  void Suspect() override;
  /// Several callbacks may be added.
  void OnConfirmed(std::function<void()> callback) override;

 private:
  class Impl;
  explicit Membership(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
