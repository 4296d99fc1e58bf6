#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ratelimit/leases/log_fence.h"
#include "worker/fleet/clock_offset.h"
#include "worker/fleet/control_link.h"
#include "worker/fleet/control_wire.h"
#include "worker/fleet/coordinator_seat.h"
#include "worker/fleet/demand.h"
#include "worker/fleet/limit_book.h"

namespace posthorn::fleet {

/// The control partition that a limit belongs to: the same in every worker.
[[nodiscard]] std::int32_t PartitionOf(std::string_view limit, std::int32_t partitions);

/// A limit as the control plane of this worker sees it.
struct LeaseView {
  std::string limit;
  std::int32_t partition = -1;  // -1: not known yet
  std::string coordinator;      // instance name; empty: none was heard
  std::uint64_t epoch = 0;
  ratelimit::Limiter::LeaseState lease;
  std::optional<runtime::Nanoseconds> lease_age;  // since the newest grant came
  Demand demand;
  bool starved = false;
  bool waits = false;  // there is no lease, nor a slot: nothing is delivered under this limit
};

/// A control partition that this worker coordinates.
struct CoordinatedView {
  std::int32_t partition = 0;
  ratelimit::Coordinator::Phase phase = ratelimit::Coordinator::Phase::kReading;
  std::uint64_t epoch = 0;
  struct Limit {
    std::string name;
    ratelimit::Coordinator::LimitView view;
    std::vector<std::string> instances;  // of view.members, in their order
  };
  std::vector<Limit> limits;
};

struct ControlView {
  std::int32_t partitions = 0;  // 0: the control topics are not there yet
  std::optional<ClockOffset::Bounds> clock_offset;
  bool clock_fenced = false;               // further off than may be: no permits under limits are given here
  std::array<std::uint64_t, 3> ignored{};  // records, by WireFault
  std::uint64_t reports = 0;               // sent
  std::uint64_t grants = 0;                // accepted
  std::uint64_t above_total = 0;           // permits above the totals, seen while coordinating
  std::vector<LeaseView> limits;
  std::vector<CoordinatedView> coordinated;
};

/// One worker's part of the fleet's control plane: feeds the lease state machines of its limiters and the coordinators
/// of the control partitions it has been given, and sends what they say.
///
///   reports  one per control partition in every window, for all its limits; at once (100 ms apart) when work waits
///            without a permit and the coordinator does not know it, when a lease was cut, and to a new coordinator
///   grants   to the limiters, in the order of the log, as far as its fence lets them
///   clock    measured by the reports; while it is further off than may be, limiters are fenced, nothing is asked for,
///            and nothing is coordinated here
///
/// Time     Given; the wall clock and the steady one of runtime::Clock.
/// Threads  One at a time (ControlPlane).
class ControlNode {
 public:
  struct Parts {
    std::string instance;
    ratelimit::Incarnation self = 0;  // drawn anew by each process
    int length = 10;                  // of a lease, in windows
    runtime::Nanoseconds max_clock_offset = std::chrono::milliseconds(100);
    LimitBook* limits = nullptr;
    ControlLink* link = nullptr;
    std::function<std::map<std::string, Demand>(const runtime::Now&)> demand;
    std::function<void()> wake;  // something may start earlier than those who wait were told
  };
  explicit ControlNode(Parts parts);

  void OnReady(std::int32_t partitions);
  void OnOwned(std::int32_t partition, bool owned, const runtime::Now& now);
  void OnReport(std::int32_t partition, std::string_view bytes, const runtime::Now& now);
  void OnLog(std::int32_t partition, std::string_view bytes, const runtime::Now& now);
  void OnLogEnd(std::int32_t partition);
  void OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored, runtime::WallTime known);

  /// Does what is due; returns when it next has something to do.
  runtime::WallTime Tick(const runtime::Now& now);
  /// The worker starts nothing any more: says so, and plans a last time without it.
  void Leave(const runtime::Now& now);

  [[nodiscard]] ControlView View(const runtime::Now& now) const;

 private:
  struct Partition {
    explicit Partition(CoordinatorSeat::Parts parts) : seat(std::move(parts)) {}
    CoordinatorSeat seat;
    ratelimit::LogFence fence;
    std::string coordinator;
    bool report_now = true;
    runtime::WallTime reported_at{};
    ratelimit::Label reported_in = 0;  // the regular report of this window is sent
  };
  struct Limit {
    LimitBook::View book;
    std::int32_t partition = -1;  // -1: not known yet
    Demand demand;
    bool starved = false;
    std::int64_t told_demand = 0;
    bool told_starved = false;
    std::optional<runtime::WallTime> granted_at;
    bool waits = false;
  };
  void TakeLimits(const runtime::Now& now);
  void TakeDemand(const runtime::Now& now);
  void TakeGrant(std::int32_t partition, const ratelimit::Grant& grant, const runtime::Now& now, bool& sooner);
  void SetFenced(bool fenced);
  void NoteWaiting(Limit& limit, const ratelimit::Limiter::LeaseState& state, const runtime::Now& now);
  /// Requires its partition to be known.
  [[nodiscard]] Partition& PartitionWith(const Limit& limit) {
    return partitions_[static_cast<std::size_t>(limit.partition)];
  }
  [[nodiscard]] runtime::WallTime ReportIfDue(std::int32_t number, Partition& partition, const runtime::Now& now);
  void SendReport(std::int32_t number, Partition& partition, const runtime::Now& now);
  [[nodiscard]] ReportMessage MakeReport(std::int32_t number, const runtime::Now& now);
  void Append(std::int32_t number, std::vector<ratelimit::ControlRecord> records);

  const Parts parts_;
  std::vector<Partition> partitions_;
  std::map<std::string, Limit> limits_;
  std::optional<ratelimit::SlotClaim> claim_;
  ClockOffset clock_;
  bool fenced_ = false;
  bool left_ = false;
  std::optional<std::pair<std::uint64_t, bool>> taken_;  // of the limit book and the fence: what TakeLimits has done
  runtime::WallTime look_at_{};                          // next look at limits and demand
  std::optional<runtime::WallTime> started_;
  std::array<std::uint64_t, 3> ignored_{};
  std::uint64_t reports_ = 0;
  std::uint64_t grants_ = 0;
};

}  // namespace posthorn::fleet
