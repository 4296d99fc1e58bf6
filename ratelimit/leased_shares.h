#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ratelimit/leases/lease.h"
#include "ratelimit/plan.h"

namespace posthorn::ratelimit {

/// What this worker may use of each window by its lease: what ShareHistory is for static shares.
///
/// Time     Given times and labels must not fall; see Limiter, which sees to it.
/// Threads  One at a time.
class LeasedShares {
 public:
  /// Requires a plan by lease.
  LeasedShares(const std::string& limit, const Lease::Process& process, const Plan& plan, WallTime now);

  /// False: nothing has changed.
  bool Learn(const Plan& plan, WallTime now);
  bool Accept(const Grant& grant, WallTime now) { return lease_.Accept(grant, now); }
  void Fence(bool fenced) { fenced_ = fenced; }
  void Leave() { lease_.Leave(); }
  void Advance(Label w) { lease_.Advance(StartOf(w)); }

  /// 0 while fenced.
  [[nodiscard]] std::int64_t CapAt(Label w) const { return fenced_ ? 0 : lease_.CapAt(w).permits; }
  /// As ShareHistory's; looks kLongestLease windows ahead and names the one after those where it finds none.
  [[nodiscard]] std::optional<Label> NextOpen(Label after) const;

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const Lease& lease() const { return lease_; }
  [[nodiscard]] bool fenced() const { return fenced_; }

 private:
  static Terms TermsOf(const Plan& plan);

  Plan plan_;
  Lease lease_;
  bool fenced_ = false;
};

}  // namespace posthorn::ratelimit
