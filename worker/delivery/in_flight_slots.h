#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace posthorn::delivery {

/// `max_in_flight` of one subscription over all shards of the worker.
///
/// Threads  Any; no lock. A shard that was refused names itself as waiting and is told (by the caller of Release, see
///          there) when a slot is free again: no wake-up is lost.
/// Fairness A shard that holds its equal part or more takes no further slot while another one wants some: otherwise who
///          was first would keep them all, being the first to see each of its own come free.
class InFlightSlots {
 public:
  explicit InFlightSlots(std::uint32_t max) : max_(max) {}

  void SetMax(std::uint32_t max) { max_.store(max); }
  /// Takes a slot or notes that `shard` (below 64), which holds `held` of them, waits for one.
  /// `yields`: not while another shard wants one, although none is held here (see Shard::ReleaseSlot).
  [[nodiscard]] bool TakeOrWait(std::uint32_t shard, std::uint32_t held, bool yields) {
    const auto others = wanted_by_.load() & ~Bit(shard);
    if (others == 0) {
      yields = false;
    } else if (held > 0 && held * (Count(others) + 1) >= max_.load()) {
      yields = true;  // with a slot free perhaps, but one of its own will come free and wake it
    }
    if (!yields && TryTake()) return true;
    wanted_by_.fetch_or(Bit(shard));
    waiting_.fetch_or(Bit(shard));
    // A slot released between the lines above found nobody waiting: look again.
    return !yields && TryTake();
  }
  /// `shard` tries anew for all that wait there, or nothing there waits any more.
  void WantNone(std::uint32_t shard) { wanted_by_.fetch_and(~Bit(shard)); }
  /// Gives a slot back. Returns the set of shards (bits) that wait; the caller wakes them, they try again.
  [[nodiscard]] std::uint64_t Release() {
    used_.fetch_sub(1);
    if (waiting_.load() == 0) return 0;
    return waiting_.exchange(0);
  }
  /// Not even one slot for each of `others` (bits) and one more.
  [[nodiscard]] bool Scarce(std::uint64_t others) const { return max_.load() < Count(others) + 1; }
  [[nodiscard]] std::uint32_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  // Sequentially consistent throughout: a taker's mark and a releaser's count must not both be overlooked.
  bool TryTake() {
    auto used = used_.load();
    while (used < max_.load()) {
      if (used_.compare_exchange_weak(used, used + 1)) return true;
    }
    return false;
  }
  static std::uint64_t Bit(std::uint32_t shard) { return std::uint64_t{1} << (shard & 63U); }
  static std::uint64_t Count(std::uint64_t bits) { return static_cast<std::uint64_t>(std::popcount(bits)); }
  std::atomic<std::uint32_t> max_;
  std::atomic<std::uint32_t> used_{0};
  std::atomic<std::uint64_t> waiting_{0};    // to be woken by the next release
  std::atomic<std::uint64_t> wanted_by_{0};  // refused, and not tried again yet
};

}  // namespace posthorn::delivery
