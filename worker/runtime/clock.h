#pragma once

#include <chrono>

#include "ratelimit/time.h"

namespace posthorn::runtime {

using ratelimit::Nanoseconds;
using ratelimit::WallTime;
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

/// One reading of both clocks. The wall clock labels windows and stamps records; the steady one measures durations and
/// drives timers. The two never share a type.
struct Now {
  WallTime wall;
  SteadyTime steady;
};

/// Where the process gets its time. Read once per wake-up and passed down.
///
/// Time     The wall time never goes backwards within one Clock: after a backward step of the system clock it goes on
/// at
///          half speed until the system clock has caught up (labels never reopen, nothing freezes); a forward step is
///          followed at once.
/// Threads  Any.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Now Read() = 0;
};

/// CLOCK_REALTIME disciplined by CLOCK_MONOTONIC as described at Clock.
Clock& SystemClock();

}  // namespace posthorn::runtime
