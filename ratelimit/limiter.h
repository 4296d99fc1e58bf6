#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "ratelimit/leased_shares.h"
#include "ratelimit/plan.h"
#include "ratelimit/share_history.h"
#include "ratelimit/window_counter.h"

namespace posthorn::ratelimit {

/// One attempt may start now; it is counted in `label`.
struct Admitted {
  Label label;
  bool operator==(const Admitted&) const = default;
};
/// Nothing before `at`, as far as is known. Then ask again; somebody else may have been faster.
struct TryAgainAt {
  WallTime at;
  bool operator==(const TryAgainAt&) const = default;
};
/// Nothing within the maximum wait, as far as is known.
struct WontOpen {
  bool operator==(const WontOpen&) const = default;
};
using Decision = std::variant<Admitted, TryAgainAt, WontOpen>;

/// Gates the attempts of one worker under one limit of the fleet.
///
/// In every window the worker admits at most its own share; the shares of all workers make at most the fleet's
/// Total(w), also over restarts, hand-overs and live changes, as long as the bounds of Timing hold (README: rules and
/// proof). Nothing is carried from a window into the next.
///
/// Start    A new Limiter admits nothing before the first window that begins at least `settle` after its construction;
///          by lease, nothing before its first grant.
/// By lease Lease and counter change together, under one lock: what a report says was used and may still be used is
///          what no thread can exceed from then on.
/// Time     Given with every call: the wall clock, read shortly before. Labels never go back; a `now` from before the
///          window counted is taken for that window's start.
/// Threads  Any, for every member. Acquire and Renew take a lock once per window and per change of the plan, otherwise
/// they
///          are one exchange of an atomic word, or none when denied.
/// Errors   None.
class Limiter {
 public:
  struct ByLease {
    std::string limit;  // its name in grants and reports
    Lease::Process process;
  };
  struct Options {
    Timing timing;
    /// In [0, 1), different for each worker of a fleet: how far within its own step a worker that has to wait comes
    /// later than it could, so that workers with the same share do not all fire at the same instants. At most a quarter
    /// of a window; costs no permit.
    double phase = 0;
    /// Set: its plans are LeaseDealing's, all of them. Unset: none is.
    std::optional<ByLease> by_lease = std::nullopt;
  };

  Limiter(const Plan& plan, const Options& options, WallTime now);

  /// One permit, or when to come again. An answer other than Admitted holds until SetPlan: waiters ask again after it.
  /// `max_wait` is not negative.
  [[nodiscard]] Decision Acquire(WallTime now, Nanoseconds max_wait);

  /// To be called right before the request of an admitted attempt is written, with the label it was admitted in. When
  /// that window has passed meanwhile, takes a permit of the running one instead, without regard to the envelope.
  /// Returns the label the attempt counts in; nullopt: the running window has none left, the attempt must wait again.
  [[nodiscard]] std::optional<Label> Renew(WallTime now, Label taken);

  /// Puts a plan in force. When this returns nothing is admitted by an older one any more.
  void SetPlan(const Plan& plan, WallTime now);

  /// Permits used in window `w`: exact for the window counted last and the one counted before it, otherwise 0.
  [[nodiscard]] std::int64_t UsedIn(Label w) const;

  /// This worker's share of the window at `now`.
  [[nodiscard]] std::int64_t PartialLimit(WallTime now);

  // The rest is for limits by lease only.

  /// What became of a grant.
  struct Taken {
    bool held = false;    // false: of somebody else, older, or malformed
    bool sooner = false;  // who waits should ask again: something may open earlier than was said
    bool less = false;    // a label has less than before: reporting it soon gives it to others
  };
  Taken Accept(const Grant& grant, WallTime now);
  /// While fenced nothing is admitted, whatever is held.
  void Fence(bool fenced, WallTime now);
  /// Admits nothing any more, and reports so.
  void Leave(WallTime now);
  /// The window it counts in is at least that of `now`.
  [[nodiscard]] LimitReport Report(std::int64_t demand, bool starved, WallTime now);

  struct LeaseState {
    Lease::Cap cap;                      // of the window at `now`
    std::optional<Label> covered_until;  // one past the last label of the lease; nullopt: it never had one
    GrantId held;
    bool fenced = false;
  };
  /// nullopt: not by lease.
  [[nodiscard]] std::optional<LeaseState> StateOfLease(WallTime now);

 private:
  // All under mutex_.
  void MoveTo(Label w);
  [[nodiscard]] Window WindowFor(Label w);
  bool Publish(WallTime now);
  [[nodiscard]] std::int64_t CapAt(Label w);
  [[nodiscard]] std::int64_t NewestShare(Label w);

  [[nodiscard]] Decision Later(WallTime now, Nanoseconds max_wait, const WindowCounter::Result& denied) const;

  const double phase_;
  WindowCounter counter_;

  mutable std::mutex mutex_;
  std::variant<ShareHistory, LeasedShares> shares_;
  Label previous_label_;
  std::int64_t previous_used_ = 0;
};

}  // namespace posthorn::ratelimit
