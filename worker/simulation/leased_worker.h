#pragma once

#include <cstdint>
#include <optional>

#include "ratelimit/leases/log_fence.h"
#include "ratelimit/limiter.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// The one limit of a simulated fleet, as grants and reports name it.
inline constexpr char kLimit[] = "limit";

/// One process of a worker by lease: the limiter that workers run, and when its control plane reports
/// (worker/fleet/control_node.h has the same rules). In every window 600 ms into it; at once, 100 ms apart at most,
/// when more waits than the window still has and the coordinator does not know it, when a grant took something away
/// (what is given up is free when that is told), and to a new coordinator.
///
/// Time  By its own clock.
class LeasedWorker {
 public:
  /// `phase` in [0, 1): apart from the other workers.
  LeasedWorker(const ratelimit::Lease::Process& process, const ratelimit::Plan& plan, double phase, WallTime now);

  void OnLog(const ratelimit::Epoch& epoch);
  void OnLog(const ratelimit::Grant& grant, WallTime now);
  /// Ignored when older than the plan known.
  void SetPlan(const ratelimit::Plan& plan, WallTime now);

  Started Take(const Load& load, WallTime now);
  /// What is to be told now. `load`: what Take has left.
  std::optional<ratelimit::Report> ReportDue(const Load& load, WallTime now);
  /// Uses nothing any more.
  ratelimit::Report Leave(WallTime now);

  /// To its slot, without a lease.
  bool FallsBack(WallTime now) {
    return process_.slot && limiter_.StateOfLease(now)->cap.source == ratelimit::Lease::Source::kFallback;
  }
  [[nodiscard]] const MaxRate& rate() const { return plan_.rate; }
  std::int64_t PartialLimit(WallTime now) { return limiter_.PartialLimit(now); }
  [[nodiscard]] ratelimit::Incarnation self() const { return process_.self; }

 private:
  void Look(const Load& load, WallTime now);
  ratelimit::Report MakeReport(WallTime now);

  ratelimit::Lease::Process process_;
  ratelimit::Plan plan_;
  ratelimit::Limiter limiter_;
  ratelimit::LogFence fence_;
  WallTime look_at_;
  std::int64_t demand_ = 0;
  bool starved_ = false;
  std::int64_t told_demand_ = 0;
  bool told_starved_ = false;
  bool report_now_ = true;
  WallTime reported_at_{};
  Label reported_in_ = 0;  // newest label with its regular report
};

}  // namespace posthorn::simulation
