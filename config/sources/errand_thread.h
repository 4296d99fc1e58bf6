#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

namespace posthorn::config {

/// A thread for what may block for long in the hands of a library, a disk or the network, and must not hold up whoever
/// wants it done: errands run one after the other, and Stop does not wait for one that will not end.
///
/// Threads  Post and Stop from one owner.
/// Errors   An errand must not throw. One that is left behind by Stop goes on by itself: all it touches must be held by
///          it (shared_ptr) or live as long as the process.
class ErrandThread {
 public:
  using Errand = std::function<void(const std::stop_token& stop)>;

  ErrandThread();
  ~ErrandThread();  // Stop(0ms)
  ErrandThread(const ErrandThread&) = delete;
  ErrandThread& operator=(const ErrandThread&) = delete;

  void Post(Errand errand);

  /// Stops the token of the running errand and of those that follow. True: all are done and the thread has ended.
  /// False: not within `patience`; the running one is left behind, those that follow are dropped. Idempotent.
  bool Stop(std::chrono::milliseconds patience);

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace posthorn::config
