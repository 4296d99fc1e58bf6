#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace posthorn::delivery {

/// Which shard goes first when several wait for permits of one limit. Each is awake at the same instants; without turns
/// the one that wakes a moment earlier would take every permit of a low limit, for ever.
///
/// Weighted fair: a shard's account grows by 1/lanes with each permit it takes, `lanes` being those that wait there;
/// whoever is ahead of another one that waits lets that one go first. Idle time earns nothing.
///
/// Threads  `shard` is the caller's own (below 64); no lock. Views of the others may be a moment old: then two go at
///          once, which the limit allows or not, and the accounts even it out.
/// Cost     With nobody else waiting: one load.
class PermitTurns {
 public:
  static constexpr std::uint32_t kShards = 64;

  /// `shard` was refused a permit, or has nothing that waits any more.
  void SetWaiting(std::uint32_t shard, bool waits) {
    if (waits == Waits(shard)) return;
    if (waits) {
      auto& mine = accounts_[shard % kShards];
      mine.store(std::max(mine.load(), served_.load()));
      waiting_.fetch_or(Bit(shard));
    } else {
      waiting_.fetch_and(~Bit(shard));
    }
  }
  /// No other shard that waits is behind `shard`.
  [[nodiscard]] bool MayGo(std::uint32_t shard) const {
    auto others = waiting_.load() & ~Bit(shard);
    if (others == 0) return true;
    const auto mine = accounts_[shard % kShards].load();
    for (; others != 0; others &= others - 1) {
      if (accounts_[static_cast<std::size_t>(std::countr_zero(others))].load() < mine) return false;
    }
    return true;
  }
  /// `shard` has taken a permit while `lanes` waited there.
  void Took(std::uint32_t shard, std::size_t lanes) {
    auto& mine = accounts_[shard % kShards];
    const auto before = Waits(shard) ? mine.load() : std::max(mine.load(), served_.load());
    mine.store(before + kOne / std::max<std::uint64_t>(lanes, 1));
    // What whoever comes anew begins with: not behind those that are served now.
    auto served = served_.load();
    while (served < before && !served_.compare_exchange_weak(served, before)) {
    }
  }

 private:
  static std::uint64_t Bit(std::uint32_t shard) { return std::uint64_t{1} << (shard % kShards); }
  [[nodiscard]] bool Waits(std::uint32_t shard) const { return (waiting_.load() & Bit(shard)) != 0; }

  static constexpr std::uint64_t kOne = std::uint64_t{1} << 20;
  std::atomic<std::uint64_t> waiting_{0};
  std::atomic<std::uint64_t> served_{0};
  std::array<std::atomic<std::uint64_t>, kShards> accounts_{};  // each written by its shard
};

}  // namespace posthorn::delivery
