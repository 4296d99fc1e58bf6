#pragma once

#include <cstdint>

#include "ratelimit/time.h"

namespace posthorn::ratelimit {

/// How the permits of one window open while it passes: along a straight line that reaches all of them kTail before the
/// end, so that a saturated worker sends evenly and still uses every permit.
///
///     E(x) = min(cap, n0 + kHead + floor((cap - n0) * (x - x0) / (kWindow - kTail - x0)))
///
/// x0 and n0 are 0 in a window that began with its cap. When a cap is raised at offset x0 after n0 permits, the line
/// starts anew from there: what the higher cap would have given earlier is not made up for in one burst.
///
/// In the last kTail at most TailAllowance permits open beyond those used when it began, so that permits left over from
/// an idle window do not all go just before its end, next to the following window's first ones. An even stream within
/// the cap never notices either rule.
///
/// Units    Offsets in nanoseconds from the window's start, permits as counts up to MaxRate::kMaxPerSecond.
struct Envelope {
  static constexpr Nanoseconds kTail = std::chrono::milliseconds(20);
  static constexpr std::int64_t kHead = 1;

  std::int64_t cap = 0;
  Nanoseconds x0{0};
  std::int64_t n0 = 0;

  /// Whether one more permit may go at offset `x` after `n` of them. Requires n0 <= n < cap. Exact, without a division.
  [[nodiscard]] constexpr bool Admits(std::int64_t n, Nanoseconds x) const {
    const auto width = (kWindow - kTail - x0).count();
    if (width <= 0) return true;  // raised within the tail: its allowance is the bound
    return (n + 1 - kHead - n0) * width <= (cap - n0) * (x - x0).count();
  }

  /// The first offset at which Admits(n, .) holds. Requires n0 <= n < cap.
  [[nodiscard]] constexpr Nanoseconds OpensAt(std::int64_t n) const {
    const auto width = (kWindow - kTail - x0).count();
    if (width <= 0) return x0;
    const auto steps = (n + 1 - kHead - n0) * width;
    const auto rise = cap - n0;
    return x0 + Nanoseconds((steps + rise - 1) / rise);
  }

  /// Distance between two permits on the line. Requires n0 < cap.
  [[nodiscard]] constexpr Nanoseconds Step() const {
    const auto width = (kWindow - kTail - x0).count();
    return width <= 0 ? Nanoseconds(0) : Nanoseconds(width / (cap - n0));
  }

  [[nodiscard]] static constexpr bool InTail(Nanoseconds x) { return x >= kWindow - kTail; }

  [[nodiscard]] constexpr std::int64_t TailAllowance() const {
    return 1 + (cap * kTail.count() + kWindow.count() - 1) / kWindow.count();
  }
};

}  // namespace posthorn::ratelimit
