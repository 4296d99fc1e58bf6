#pragma once

#include <functional>
#include <memory>

#include "worker/runtime/clock.h"

namespace posthorn::runtime {

/// A single timer of a loop. Re-arming replaces the earlier time; destruction cancels.
/// Threads  Only the loop's own thread.
class Timer {
 public:
  virtual ~Timer() = default;
  /// Calls `fire` once on the loop's thread, not before `at`. May be called from inside `fire`.
  virtual void Arm(SteadyTime at) = 0;
  virtual void Cancel() = 0;
};

/// One thread's event loop, as the rooms above Asio see it. Implemented over boost::asio::io_context (asio_loop.h) and,
/// for tests, by hand with a fake clock (tests/support/manual_loop.h).
class Loop {
 public:
  virtual ~Loop() = default;
  /// Runs `work` on the loop's thread, in the order of the calls. Any thread may call.
  virtual void Post(std::function<void()> work) = 0;
  /// A timer that calls `fire`. Only the loop's own thread.
  [[nodiscard]] virtual std::unique_ptr<Timer> MakeTimer(std::function<void()> fire) = 0;
  /// The time of the running wake-up: read once per wake-up, the same for everything the wake-up does.
  [[nodiscard]] virtual const Now& now() const = 0;
};

}  // namespace posthorn::runtime
