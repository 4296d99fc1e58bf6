#include "worker/cli/arrival_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace posthorn::cli {
namespace {

using ratelimit::WallTime;
using namespace std::chrono_literals;

constexpr WallTime kStart{1'700'000'000s};

TEST(ArrivalCountsTest, CountsSecondsAndFailures) {
  ArrivalCounts counts;
  counts.Add(kStart, false);
  counts.Add(kStart + 999'999'999ns, true);
  counts.Add(kStart + 1s, false);
  EXPECT_EQ(counts.At(1'700'000'000), (ArrivalCounts::Second{2, 1}));
  EXPECT_EQ(counts.At(1'700'000'001), (ArrivalCounts::Second{1, 0}));
  EXPECT_EQ(counts.At(1'700'000'002), ArrivalCounts::Second{});
  EXPECT_EQ(counts.totals().requests, 3u);
  EXPECT_EQ(counts.totals().failed, 1u);
}

TEST(ArrivalCountsTest, SpansAreHalfOpen) {
  ArrivalCounts counts;
  counts.Add(kStart, false);
  counts.Add(kStart + 1s, false);
  EXPECT_EQ(counts.totals().largest_1s, 1u);
  counts.Add(kStart + 2s - 1ns, false);
  EXPECT_EQ(counts.totals().largest_1s, 2u);
}

TEST(ArrivalCountsTest, LargestSpansCrossTheBordersOfSeconds) {
  ArrivalCounts counts;
  for (int i = 0; i < 50; ++i) counts.Add(kStart + 995ms + i * 200us, false);
  EXPECT_EQ(counts.totals().largest_10ms, 50u);
  EXPECT_EQ(counts.At(1'700'000'000).requests + counts.At(1'700'000'001).requests, 50u);
  EXPECT_LT(counts.At(1'700'000'000).requests, 50u);
}

TEST(ArrivalCountsTest, LateOnesCountInTheirSecond) {
  ArrivalCounts counts;
  counts.Add(kStart + 1s, false);
  counts.Add(kStart + 999ms, false);
  EXPECT_EQ(counts.At(1'700'000'000).requests, 1u);
  EXPECT_EQ(counts.totals().largest_10ms, 2u);
}

TEST(ArrivalCountsTest, AgreesWithCountingByHand) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ArrivalCounts counts;
    std::vector<std::int64_t> times;
    std::int64_t at = kStart.time_since_epoch().count();
    for (int i = 0; i < 400; ++i) {
      at += std::uniform_int_distribution<std::int64_t>(0, 20'000'000)(random);
      times.push_back(at);
      counts.Add(WallTime(std::chrono::nanoseconds(at)), false);
    }
    const auto largest = [&](std::int64_t length) {
      std::uint64_t most = 0;
      for (const std::int64_t last : times) {
        most = std::max(most, static_cast<std::uint64_t>(std::count_if(times.begin(), times.end(), [&](std::int64_t t) {
                          return t <= last && t > last - length;
                        })));
      }
      return most;
    };
    EXPECT_EQ(counts.totals().largest_10ms, largest(10'000'000));
    EXPECT_EQ(counts.totals().largest_100ms, largest(100'000'000));
    EXPECT_EQ(counts.totals().largest_1s, largest(1'000'000'000));
  }
}

}  // namespace
}  // namespace posthorn::cli
