#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace posthorn::delivery {

/// Bytes of messages held by the whole worker, against the bound from `memory`.
struct MemoryBudget {
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit(limit_bytes) {}
  const std::uint64_t limit;
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint32_t> parts{0};  // partitions owned now, and lanes that read apart; each may hold an equal part
};

/// Bytes held by one partition's messages (or those of a lane that reads apart), wherever they are: unread in the ring,
/// in flight, or waiting for a retry.
///
/// Threads  Any: the last reference to a record may be dropped on the dead-letter sink's thread.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  void Add(std::size_t bytes) {
    used_.fetch_add(bytes, std::memory_order_relaxed);
    budget_->used.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Release(std::size_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    budget_->used.fetch_sub(bytes, std::memory_order_relaxed);
  }
  /// An equal part of the worker's bound.
  [[nodiscard]] std::size_t Part() const {
    return static_cast<std::size_t>(budget_->limit / std::max(budget_->parts.load(std::memory_order_relaxed), 1U));
  }
  [[nodiscard]] bool OverPart() const { return used() >= Part(); }
  /// How many bytes this partition may still take in: within its equal part and within the worker's bound. A partition
  /// that holds nothing may always take one message, so that a message larger than its part cannot stop it.
  [[nodiscard]] std::size_t Room() const {
    const auto mine = used_.load(std::memory_order_relaxed);
    const auto all = budget_->used.load(std::memory_order_relaxed);
    const auto part = Part();
    if (mine == 0) return all >= budget_->limit ? 1 : std::max<std::size_t>(part, 1);
    if (mine >= part || all >= budget_->limit) return 0;
    return static_cast<std::size_t>(part - mine);
  }
  /// A larger message is not delivered: while it is under way it would leave no room for the others. Never below what
  /// brokers take by default.
  [[nodiscard]] std::uint64_t LargestMessage() const { return std::max(budget_->limit / 8, std::uint64_t{2} << 20); }
  [[nodiscard]] const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace posthorn::delivery
