#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "ratelimit/time.h"

namespace posthorn::cli {

/// Counts arrivals per wall-clock second, and the most that ever fell into any span of 10 ms, 100 ms and one second,
/// wherever the span starts.
///
/// Time     Never reads a clock. An arrival older than the one before it counts in its own second, and in the spans as
/// if
///          it came with the one before.
/// Threads  One at a time.
/// Cost     8 bytes per arrival of the last second; seconds older than kSecondsKept are forgotten.
class ArrivalCounts {
 public:
  static constexpr std::size_t kSecondsKept = 86'400;

  struct Second {
    std::uint64_t requests = 0;
    std::uint64_t failed = 0;  // answered with something else than 2xx
    bool operator==(const Second&) const = default;
  };
  struct Totals {
    std::uint64_t requests = 0;
    std::uint64_t failed = 0;
    std::uint64_t largest_10ms = 0;
    std::uint64_t largest_100ms = 0;
    std::uint64_t largest_1s = 0;
    std::map<ratelimit::Label, Second> seconds;
  };

  void Add(ratelimit::WallTime at, bool failed);
  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] Second At(ratelimit::Label second) const;

 private:
  struct Span {
    std::int64_t length_ns;
    std::uint64_t first = 0;  // number of the oldest arrival inside
  };
  void Slide(Span& span, std::int64_t newest, std::uint64_t& largest);

  Totals totals_;
  std::deque<std::int64_t> recent_;  // arrivals of the last second, oldest first
  std::uint64_t recent_first_ = 0;   // number of recent_.front()
  Span span_10ms_{10'000'000};
  Span span_100ms_{100'000'000};
  Span span_1s_{1'000'000'000};
};

}  // namespace posthorn::cli
