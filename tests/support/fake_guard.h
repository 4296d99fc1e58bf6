#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "worker/delivery/feed.h"

namespace posthorn::test {

/// A guard that confirms when the test says so. Threads: as MembershipGuard.
class FakeGuard final : public delivery::MembershipGuard {
 public:
  [[nodiscard]] bool Confirmed() const override { return confirmed_.load(std::memory_order_relaxed); }
  void Suspect() override {
    ++suspected;
    confirmed_ = false;
  }
  void OnConfirmed(std::function<void()> callback) override { callback_ = std::move(callback); }
  void Confirm() {
    confirmed_ = true;
    if (callback_) callback_();
  }

  std::atomic<int> suspected{0};

 private:
  std::atomic<bool> confirmed_{true};
  std::function<void()> callback_;
};

}  // namespace posthorn::test
