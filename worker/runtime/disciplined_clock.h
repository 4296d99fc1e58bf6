#pragma once

#include <atomic>
#include <mutex>

#include "worker/runtime/clock.h"

namespace posthorn::runtime {

/// The rule of Clock as a function of readings: never backwards; behind the last given time it goes on at half speed
/// until the readings have caught up; ahead of it the readings are followed at once.
///
/// Threads  Any. Without a backward step: one atomic word, no lock.
class DisciplinedClock {
 public:
  [[nodiscard]] WallTime Adjust(WallTime wall, SteadyTime steady);

 private:
  static constexpr std::chrono::milliseconds kOverlap{1};
  std::atomic<std::int64_t> given_{0};  // newest wall time handed out
  std::atomic<bool> behind_{false};     // slewing after a backward step
  std::mutex mutex_;
  WallTime slew_from_wall_{};
  SteadyTime slew_from_steady_{};
};

}  // namespace posthorn::runtime
