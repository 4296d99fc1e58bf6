#pragma once

#include <atomic>
#include <cstdint>

namespace posthorn::kafka {

/// The facts behind MembershipGuard::Confirmed in one atomic word: are we in the group, and has every doubt been
/// settled? Doubts are numbered, so that an answer asked for before a later doubt does not settle that one.
///
/// Threads  Confirmed and Doubt: any. The rest: the membership thread.
class GuardState {
 public:
  [[nodiscard]] bool Confirmed() const { return (word_.load(std::memory_order_relaxed) & kBoth) == kBoth; }
  [[nodiscard]] bool joined() const { return (word_.load(std::memory_order_relaxed) & kJoined) != 0; }
  [[nodiscard]] bool clear() const { return (word_.load(std::memory_order_relaxed) & kClear) != 0; }
  /// The newest doubt; settle with it.
  [[nodiscard]] std::uint64_t doubt() const { return word_.load(std::memory_order_acquire) >> 2; }

  void Doubt() {
    auto word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, (((word >> 2) + 1) << 2) | (word & kJoined), std::memory_order_acq_rel)) {
    }
  }
  /// Both return true when this made Confirmed() true.
  bool Join() {
    const auto before = word_.fetch_or(kJoined, std::memory_order_acq_rel);
    return (before & kBoth) == kClear;
  }
  bool Settle(std::uint64_t doubt) {
    auto word = word_.load(std::memory_order_relaxed);
    while ((word >> 2) == doubt) {
      if (word_.compare_exchange_weak(word, word | kClear, std::memory_order_acq_rel)) return (word & kBoth) == kJoined;
    }
    return false;
  }
  void Leave() { word_.fetch_and(~kJoined, std::memory_order_acq_rel); }

 private:
  static constexpr std::uint64_t kClear = 1;
  static constexpr std::uint64_t kJoined = 2;
  static constexpr std::uint64_t kBoth = kClear | kJoined;
  std::atomic<std::uint64_t> word_{kClear};
};

}  // namespace posthorn::kafka
