#include "worker/runtime/clock.h"

#include <time.h>

#include <algorithm>
#include <mutex>

#include "worker/runtime/disciplined_clock.h"

namespace posthorn::runtime {
namespace {

Nanoseconds ReadClock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return std::chrono::seconds(ts.tv_sec) + Nanoseconds(ts.tv_nsec);
}

class RealClock final : public Clock {
 public:
  Now Read() override {
    const SteadyTime steady(ReadClock(CLOCK_MONOTONIC));
    const WallTime wall(ReadClock(CLOCK_REALTIME));
    return {discipline_.Adjust(wall, steady), steady};
  }

 private:
  DisciplinedClock discipline_;
};

}  // namespace

WallTime DisciplinedClock::Adjust(WallTime wall, SteadyTime steady) {
  // The system clock runs at or ahead of what was given out: the ordinary case, one comparison against an atomic.
  auto given = given_.load(std::memory_order_relaxed);
  const auto raw = wall.time_since_epoch().count();
  while (raw >= given) {
    if (given_.compare_exchange_weak(given, raw, std::memory_order_relaxed)) {
      if (behind_.load(std::memory_order_relaxed)) behind_.store(false, std::memory_order_relaxed);
      return wall;
    }
  }
  // Readings of two threads that merely overlap differ by microseconds: hold the newest one given out.
  if (!behind_.load(std::memory_order_relaxed) && given - raw < std::chrono::nanoseconds(kOverlap).count()) {
    return WallTime(Nanoseconds(given));
  }
  const std::lock_guard lock(mutex_);
  if (!behind_.load(std::memory_order_relaxed)) {
    behind_.store(true, std::memory_order_relaxed);
    slew_from_wall_ = WallTime(Nanoseconds(given_.load(std::memory_order_relaxed)));
    slew_from_steady_ = steady;
  }
  const auto slewed = slew_from_wall_ + std::max(steady - slew_from_steady_, Nanoseconds(0)) / 2;
  given = given_.load(std::memory_order_relaxed);
  const auto next = std::max(given, slewed.time_since_epoch().count());
  while (given < next && !given_.compare_exchange_weak(given, next, std::memory_order_relaxed)) {
  }
  return WallTime(Nanoseconds(std::max(given, next)));
}

Clock& SystemClock() {
  static RealClock clock;
  return clock;
}

}  // namespace posthorn::runtime
