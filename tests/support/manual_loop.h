#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "worker/runtime/loop.h"

namespace posthorn::test {

/// A clock that stands still until it is told.
/// Threads  Any.
class FakeClock final : public runtime::Clock {
 public:
  FakeClock() : now_{ratelimit::StartOf(1'793'000'000), runtime::SteadyTime(std::chrono::seconds(1000))} {}
  runtime::Now Read() override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(runtime::Nanoseconds by) {
    const std::lock_guard lock(mutex_);
    now_.wall += by;
    now_.steady += by;
  }
  /// A step of the wall clock alone.
  void StepWall(runtime::Nanoseconds by) {
    const std::lock_guard lock(mutex_);
    now_.wall += by;
  }

 private:
  std::mutex mutex_;
  runtime::Now now_;
};

class ManualWorld;

/// A Loop whose "thread" is whoever drives the world.
class ManualLoop final : public runtime::Loop {
 public:
  explicit ManualLoop(ManualWorld& world) : world_(world) {}
  void Post(std::function<void()> work) override;
  [[nodiscard]] std::unique_ptr<runtime::Timer> MakeTimer(std::function<void()> fire) override;
  [[nodiscard]] const runtime::Now& now() const override { return now_; }

 private:
  friend class ManualWorld;
  class ManualTimer final : public runtime::Timer {
   public:
    ManualTimer(ManualLoop& loop, std::function<void()> fire)
        : loop_(loop), fire_(std::make_shared<std::function<void()>>(std::move(fire))) {
      loop_.timers_.push_back(this);
    }
    ~ManualTimer() override { std::erase(loop_.timers_, this); }
    void Arm(runtime::SteadyTime at) override {
      armed_ = true;
      at_ = at;
    }
    void Cancel() override { armed_ = false; }

   private:
    friend class ManualLoop;
    friend class ManualWorld;
    ManualLoop& loop_;
    std::shared_ptr<std::function<void()>> fire_;  // outlives a timer that is destroyed while it fires
    bool armed_ = false;
    runtime::SteadyTime at_{};
  };

  [[nodiscard]] ManualTimer* Earliest() const {
    ManualTimer* earliest = nullptr;
    for (auto* timer : timers_) {
      if (timer->armed_ && (earliest == nullptr || timer->at_ < earliest->at_)) earliest = timer;
    }
    return earliest;
  }

  ManualWorld& world_;
  runtime::Now now_{};
  std::deque<std::function<void()>> posted_;  // world_.mutex_
  std::vector<ManualTimer*> timers_;
};

/// Fake time and any number of loops, all run by the test's thread, in a fixed order.
class ManualWorld {
 public:
  FakeClock clock;

  ManualLoop& MakeLoop() {
    loops_.push_back(std::make_unique<ManualLoop>(*this));
    loops_.back()->now_ = clock.Read();
    return *loops_.back();
  }

  /// Runs what was posted until nothing is left. Timers that are due at this very moment included.
  void RunReady() {
    while (RunOne()) {
    }
  }

  /// Lets time pass; every timer fires at its time, or at once when it is late already.
  void Advance(runtime::Nanoseconds by) {
    const auto target = clock.Read().steady + by;
    RunReady();
    for (;;) {
      auto* timer = Earliest();
      const auto now = clock.Read().steady;
      if (timer == nullptr || timer->at_ > target) {
        clock.Advance(target - now);
        RunReady();
        return;
      }
      if (timer->at_ > now) clock.Advance(timer->at_ - now);
      RunReady();
    }
  }

  /// Time passes while nothing of this process runs.
  void StandStill(runtime::Nanoseconds by) { clock.Advance(by); }

  /// Runs the loops until `done`, waiting for other threads to post or Notify. False after a minute: something hangs.
  template <typename Done>
  [[nodiscard]] bool Await(Done done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      RunReady();
      if (done()) return true;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, limit, [this] { return notified_ || AnythingPosted(); })) return false;
      notified_ = false;
    }
  }

  /// Runs `call` on a thread of its own while this one runs the loops: for calls that wait for them.
  template <typename Call>
  void RunBeside(Call call) {
    bool done = false;
    std::thread caller([&] {
      call();
      const std::lock_guard lock(mutex_);
      done = true;
      notified_ = true;
      changed_.notify_all();
    });
    const bool finished = Await([&] {
      const std::lock_guard lock(mutex_);
      return done;
    });
    if (!finished) std::abort();  // the thread cannot be ended, and it holds what the test holds
    caller.join();
  }

  /// Something that a predicate of Await looks at has changed.
  void Notify() {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  }

 private:
  friend class ManualLoop;

  bool RunOne() {
    for (auto& loop : loops_) {
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex_);
        if (!loop->posted_.empty()) {
          work = std::move(loop->posted_.front());
          loop->posted_.pop_front();
        }
      }
      loop->now_ = clock.Read();
      if (work) {
        work();
        return true;
      }
      auto* timer = loop->Earliest();
      if (timer != nullptr && timer->at_ <= loop->now_.steady) {
        timer->armed_ = false;
        const auto fire = timer->fire_;
        (*fire)();
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] ManualLoop::ManualTimer* Earliest() const {
    ManualLoop::ManualTimer* earliest = nullptr;
    for (const auto& loop : loops_) {
      auto* timer = loop->Earliest();
      if (timer != nullptr && (earliest == nullptr || timer->at_ < earliest->at_)) earliest = timer;
    }
    return earliest;
  }

  [[nodiscard]] bool AnythingPosted() const {
    return std::any_of(loops_.begin(), loops_.end(), [](const auto& loop) { return !loop->posted_.empty(); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
  std::vector<std::unique_ptr<ManualLoop>> loops_;
};

inline void ManualLoop::Post(std::function<void()> work) {
  const std::lock_guard lock(world_.mutex_);
  posted_.push_back(std::move(work));
  world_.changed_.notify_all();
}

inline std::unique_ptr<runtime::Timer> ManualLoop::MakeTimer(std::function<void()> fire) {
  return std::make_unique<ManualTimer>(*this, std::move(fire));
}

}  // namespace posthorn::test
