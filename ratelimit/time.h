#pragma once

#include <chrono>
#include <cstdint>

namespace posthorn::ratelimit {

using Nanoseconds = std::chrono::nanoseconds;

/// The wall clock as a type without a `now()`: whoever counts windows is given the time.
struct WallClock {
  using duration = Nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WallClock, duration>;
  static constexpr bool is_steady = false;
};

/// Nanoseconds since 1970-01-01T00:00:00Z.
using WallTime = WallClock::time_point;

/// Number of a window: floor(wall time / window). Label w covers [w*kWindow, (w+1)*kWindow).
using Label = std::int64_t;

/// Every limit counts in windows of one second of the wall clock, rates below 1/s too: most of their windows hold no
/// permit, and the windows that do are exact (see MaxRate::Total).
inline constexpr Nanoseconds kWindow = std::chrono::seconds(1);

constexpr Label LabelAt(WallTime t) {
  const auto ns = t.time_since_epoch().count();
  const auto w = kWindow.count();
  return ns >= 0 ? ns / w : -((-ns + w - 1) / w);
}

constexpr WallTime StartOf(Label w) { return WallTime(kWindow * w); }

[[nodiscard]] inline double SecondsOf(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace posthorn::ratelimit
