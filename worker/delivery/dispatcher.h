#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/delivery/feed.h"
#include "worker/delivery/limits.h"
#include "worker/delivery/offset_store.h"
#include "worker/delivery/replay.h"
#include "worker/delivery/shard.h"
#include "worker/delivery/stats.h"

namespace posthorn::delivery {

/// Brings together what the configuration wants (subscriptions) and what the group gives (partitions): decides which
/// shard owns a partition, opens and closes lanes, and keeps the limits told. Never touches a message.
///
/// Threads  Apply on the config-watch thread (returns at once), the AssignmentListener calls on the membership thread
///          (may wait for shards and for Kafka), the views on any. Lanes for partitions that are already owned are
///          opened by a thread of its own, which tries again while Kafka is away.
/// Errors   None of its calls fails: what cannot be done now is tried again and shown in the log.
class Dispatcher final : public AssignmentListener {
 public:
  struct Parts {
    std::vector<Shard*> shards;
    runtime::Clock* clock = nullptr;
    Limits* limits = nullptr;
    OffsetStore* offsets = nullptr;
    std::shared_ptr<MemoryBudget> memory;
    std::string retry_topic;                               // empty: there is none
    std::function<void(std::set<std::string>)> subscribe;  // the union of the topics, whenever it changes
    std::chrono::milliseconds retry{500};                  // between two questions to a Kafka that does not answer
    std::chrono::milliseconds patience{5000};              // with them while the group waits for the assignment
  };
  explicit Dispatcher(Parts parts);
  ~Dispatcher() override;

  /// Puts a revision in force. Limits, pauses and policies act within milliseconds; lanes of new subscriptions follow.
  void Apply(const config::SnapshotPtr& snapshot);
  /// A revision that will be put in force at its `effective_at`: the limits change in that very window, everything else
  /// when it is applied.
  void Announce(const config::SnapshotPtr& snapshot);
  /// How long OnRevoked waits for attempts in flight; another one when the worker stops.
  void SetDrainLimit(std::chrono::milliseconds limit) { drain_limit_.store(limit.count()); }
  /// How long OnRevoked waits for Kafka to store positions.
  void SetFlushLimit(std::chrono::milliseconds limit) { flush_limit_.store(limit.count()); }
  /// Ends the reconciling thread; no lane is opened any more. Before the membership is stopped.
  void StopReconciling();
  /// Tells the shards soon how far a subscription has come in the retry topic, as far as that is stored. Any thread.
  void AskRetryProgress(const std::string& subscription);
  /// Starts what may start on every shard: the membership is confirmed again.
  void WakeShards();

  std::vector<Offset> OnAssigned(const std::vector<std::shared_ptr<PartitionFeed>>& feeds,
                                 const std::function<bool()>& cancelled) override;
  void OnRevoked(const std::vector<TopicPartition>& partitions, bool lost) override;
  void OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts) override;

  /// Takes the subscription back on one partition: closes its lane as for a rebalance, and opens it anew where the
  /// request says. Unset: cannot be done now (not our partition, its lane is about to open, Kafka does not answer); the
  /// lane goes on where it was. The new position is noted in the offset store, not flushed. Blocks.
  [[nodiscard]] std::optional<ReplayOutcome> Replay(const ReplayRequest& request, const TopicPartition& partition);

  // What there is to see.
  struct LaneView {
    TopicPartition partition;
    Offset next = 0;      // everything below is finished
    Offset log_end = -1;  // -1: unknown
    LaneReader reader = LaneReader::kShared;
    Offset taken = 0;  // everything below has been taken from the log
  };
  struct SubscriptionView {
    std::shared_ptr<const config::Subscription> config;
    std::shared_ptr<SubscriptionShared> shared;
    std::vector<LaneView> lanes;
    std::vector<LaneView> retry_lanes;  // on the retry topic, which holds messages of others too
  };
  [[nodiscard]] std::vector<SubscriptionView> Subscriptions() const;
  [[nodiscard]] config::SnapshotPtr snapshot() const;
  [[nodiscard]] std::size_t owned_partitions() const;
  [[nodiscard]] std::vector<TopicPartition> OwnedPartitions() const;

 private:
  struct Owned {
    std::shared_ptr<PartitionFeed> feed;
    std::uint32_t shard = 0;
  };
  struct Subscription {
    std::shared_ptr<const config::Subscription> config;
    std::shared_ptr<SubscriptionShared> shared;
    std::map<TopicPartition, std::shared_ptr<LaneStats>> lanes;
    std::set<TopicPartition> not_here;  // of the retry topic: nothing of it ever was there
  };
  struct Start {
    OffsetStore::Key key;
    Offset next = 0;
    bool stored = false;  // the store has just this
    std::string metadata;
    CommitState known;  // what the metadata says of the messages from `next` on
  };

  [[nodiscard]] std::optional<std::vector<Start>> StartPositions(const std::vector<OffsetStore::Key>& keys);
  [[nodiscard]] bool Reads(const Subscription& subscription, const TopicPartition& id) const {
    return id.topic == subscription.config->topic || IsRetry(id);
  }
  [[nodiscard]] bool IsRetry(const TopicPartition& id) const {
    return !parts_.retry_topic.empty() && id.topic == parts_.retry_topic;
  }
  [[nodiscard]] bool NeverHere(const OffsetStore::Key& key);
  void TellRetryProgress(const std::set<std::string>& subscriptions);
  static void StartAtStored(Start& start, const Position& stored, std::pair<Offset, Offset> bounds);
  void OpenLane(const Start& start, Owned& owned);
  void PostSubscriptions();
  void CloseAndFlush(const std::function<bool(const Lane&)>& which, bool lost, std::chrono::milliseconds limit);
  void WantReconcile();
  void ReconcileLoop();
  [[nodiscard]] bool Reconcile();
  [[nodiscard]] std::vector<OffsetStore::Key> MissingLanes() const;  // state_ held
  [[nodiscard]] std::uint32_t EmptiestShard() const;
  void OnEveryShard(const std::function<void(Shard&, std::function<void()> done)>& work,
                    std::chrono::milliseconds limit, const std::function<void()>& on_timeout);

  Parts parts_;
  std::atomic<std::int64_t> drain_limit_{5000};
  std::atomic<std::int64_t> flush_limit_{5000};

  std::mutex structure_;  // one change of lanes at a time: assign, revoke, reconcile; may be held while waiting

  mutable std::mutex state_;  // the maps below; never held while waiting
  config::SnapshotPtr snapshot_;
  std::map<std::string, Subscription> subscriptions_;
  std::vector<Subscription> leaving_;  // removed from the configuration, lanes still to be closed
  std::map<TopicPartition, Owned> owned_;
  std::set<std::string> topics_;
  std::map<const ratelimit::Limiter*, std::shared_ptr<PermitTurns>> turns_;  // of those in force
  std::int32_t retry_partitions_ = 0;                                        // 0: unknown

  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool reconcile_wanted_ = false;
  std::set<std::string> progress_wanted_;  // subscriptions
  bool stopping_ = false;
  std::thread reconciler_;
};

}  // namespace posthorn::delivery
