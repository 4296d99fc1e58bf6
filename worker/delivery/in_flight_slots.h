#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace posthorn::delivery {

/// `max_in_flight` of one subscription over all shards of the worker.
///
/// Threads  Any; no lock. A shard that was refused names itself as waiting and is told (by the caller of Release, see
///          there) when a slot is free again: no wake-up is lost.
class InFlightSlots {
 public:
  explicit InFlightSlots(std::uint32_t max) : max_(max) {}

  void SetMax(std::uint32_t max) { max_.store(max); }
  [[nodiscard]] bool TryTake() {
    auto used = used_.load(std::memory_order_relaxed);
    while (used < max_.load(std::memory_order_relaxed)) {
      if (used_.compare_exchange_weak(used, used + 1)) return true;
    }
    return false;
  }
  /// Takes a slot or notes that `shard` (below 64) waits for one.
  [[nodiscard]] bool TakeOrWait(std::uint32_t shard) {
    if (TryTake()) return true;
    waiting_.fetch_or(Bit(shard));
    // A slot released between the two lines above found nobody waiting: look again.
    return TryTake();
  }
  /// Gives a slot back. Returns the set of shards (bits) that wait; the caller wakes them, they try again.
  [[nodiscard]] std::uint64_t Release() {
    used_.fetch_sub(1);
    if (waiting_.load() == 0) return 0;
    return waiting_.exchange(0);
  }
  /// Notes that more lanes of `shard` wait. True when a slot is free after all: somebody released one just before.
  [[nodiscard]] bool WaitOn(std::uint32_t shard) {
    waiting_.fetch_or(Bit(shard));
    return used_.load() < max_.load();
  }
  [[nodiscard]] std::uint32_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  static std::uint64_t Bit(std::uint32_t shard) { return std::uint64_t{1} << (shard & 63U); }
  std::atomic<std::uint32_t> max_;
  std::atomic<std::uint32_t> used_{0};
  std::atomic<std::uint64_t> waiting_{0};
};

}  // namespace posthorn::delivery
