#pragma once

#include <memory>
#include <string>

#include "worker/runtime/loop.h"

namespace boost::asio {
class io_context;
}

namespace posthorn::runtime {

/// A Loop on its own thread over boost::asio::io_context.
///
/// Time     now() is read when a handler of this loop starts (see Touch) and stays until it ends.
/// Threads  Start, Stop and Join from the owner; Post from anywhere; the rest from the loop's thread.
/// Lifetime Everything that uses the loop ends on the loop before Stop; timers must be gone before the loop is.
class AsioLoop final : public Loop {
 public:
  AsioLoop(Clock& clock, std::string thread_name);
  ~AsioLoop() override;
  AsioLoop(const AsioLoop&) = delete;
  AsioLoop& operator=(const AsioLoop&) = delete;

  void Start();
  /// Lets the thread end once no handler is running; what is still posted is dropped. Idempotent.
  void Stop();

  void Post(std::function<void()> work) override;
  [[nodiscard]] std::unique_ptr<Timer> MakeTimer(std::function<void()> fire) override;
  [[nodiscard]] const Now& now() const override;
  /// Marks the start of a wake-up that did not come through this class (a socket handler of the HTTP client): the
  /// clocks are read anew.
  void Touch();

  [[nodiscard]] boost::asio::io_context& io_context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::runtime
