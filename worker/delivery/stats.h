#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "worker/delivery/endpoint_health.h"
#include "worker/delivery/in_flight_slots.h"
#include "worker/delivery/record.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// A number with one writing thread (its shard) and any number of readers.
class Tally {
 public:
  void Add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  void Set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  void Subtract(std::uint64_t n) { Add(~n + 1); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Counts per wall-clock label over the last kWindows windows; one writer, any readers. Counts of a label that was
/// overwritten are gone, never mixed with another's.
class LabelCounts {
 public:
  static constexpr std::size_t kWindows = 300;
  void Add(ratelimit::Label label) {
    auto& cell = cells_[static_cast<std::size_t>(label) % kWindows];
    const auto old = cell.load(std::memory_order_relaxed);
    const auto mine = static_cast<std::uint64_t>(label) << kCountBits;
    cell.store((old >> kCountBits) == static_cast<std::uint64_t>(label) ? old + 1 : mine + 1,
               std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t Of(ratelimit::Label label) const {
    const auto cell = cells_[static_cast<std::size_t>(label) % kWindows].load(std::memory_order_relaxed);
    return (cell >> kCountBits) == static_cast<std::uint64_t>(label) ? cell & ((1U << kCountBits) - 1) : 0;
  }

 private:
  static constexpr int kCountBits = 28;
  std::array<std::atomic<std::uint64_t>, kWindows> cells_{};
};

inline constexpr std::array<double, 13> kDurationBoundsSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                                  0.25,  0.5,    1,     2.5,  5,     10};

/// What one shard has seen of one subscription. Written by the shard, read by anybody.
struct ShardStats {
  Tally attempts_delivered, attempts_retryable, attempts_overload, attempts_rejected;  // attempts by outcome
  Tally delivered, expired, exhausted, rejected;                                       // finished messages
  Tally finished_without_record;  // not delivered, and `dead_letters: false`
  Tally not_sent;                 // permits spent without a request: taken back, or replaced by a later window's
  Tally dead_letter_failures;
  Tally parked, parking_failures;                 // written to the retry topic; not in there, to be tried again
  Tally in_flight, waiting_for_permit, retrying;  // gauges
  Tally parked_here;                              // gauge: read from the retry topic, not finished
  std::array<Tally, kDurationBoundsSeconds.size() + 1> duration_buckets;
  Tally duration_sum_ns;
  LabelCounts attempts_by_label;  // attempts started
};

/// What a lane reads: the partition's messages with the others, or apart through a reader of its own.
enum class LaneReader : std::uint8_t { kShared, kOwn, kWaitsForOwn };

/// One lane as an operator sees it.
struct LaneStats {
  LaneStats(TopicPartition tp, Offset start) : partition(std::move(tp)), next(start), taken(start) {}
  const TopicPartition partition;
  std::atomic<Offset> next;   // everything below is finished
  std::atomic<Offset> taken;  // everything below has been taken from the log
  std::atomic<LaneReader> reader{LaneReader::kShared};
};

/// A subscription in this worker, over all its shards.
struct SubscriptionShared {
  SubscriptionShared(std::string subscription, std::uint32_t max_in_flight, std::size_t shards)
      : name(std::move(subscription)), slots(max_in_flight), per_shard(shards) {
    for (auto& stats : per_shard) stats = std::make_unique<ShardStats>();
  }
  const std::string name;
  InFlightSlots slots;
  EndpointHealth health;
  std::vector<std::unique_ptr<ShardStats>> per_shard;

  struct LastError {
    std::string text;
    runtime::WallTime at{};
  };
  /// Notes a failed attempt. True when it may be logged: at most kLogLines a second. `suppressed`: how many were not
  /// logged since the last line.
  bool NoteError(std::string_view text, runtime::WallTime at, std::uint64_t* suppressed);
  [[nodiscard]] LastError last_error() const;
  /// Over all shards.
  [[nodiscard]] std::uint64_t Sum(Tally ShardStats::*tally) const {
    std::uint64_t sum = 0;
    for (const auto& stats : per_shard) sum += ((*stats).*tally).value();
    return sum;
  }

 private:
  static constexpr std::uint64_t kLogLines = 10;
  mutable std::mutex mutex_;  // failures only
  LastError last_error_;
  ratelimit::Label log_label_ = 0;
  std::uint64_t logged_ = 0;
  std::uint64_t suppressed_ = 0;
};

}  // namespace posthorn::delivery
