#include "ratelimit/leases/water_fill.h"

#include <gtest/gtest.h>

#include <numeric>

#include "../testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::kFirst;
using testing::Random;
using testing::Rate;
using Permits = std::vector<std::int64_t>;

std::int64_t SumOf(const Permits& permits) { return std::accumulate(permits.begin(), permits.end(), std::int64_t{0}); }

TEST(WaterFillTest, GivesEachNoMoreThanItAsksForAndTheRestToTheOthers) {
  const Turn turn = Turn::Of(Rate("100/s"), 0);
  EXPECT_EQ(WaterFill(100, Permits{10, 200, 30, 200}, turn), (Permits{10, 30, 30, 30}));
  EXPECT_EQ(WaterFill(100, Permits{10, 20}, turn), (Permits{10, 20}));
  EXPECT_EQ(WaterFill(100, Permits{}, turn), Permits{});
  EXPECT_EQ(WaterFill(0, Permits{5}, turn), Permits{0});
}

TEST(WaterFillTest, NegativeCountsAsNothing) {
  const Turn turn = Turn::Of(Rate("9/s"), 0);
  EXPECT_EQ(WaterFill(-3, Permits{5, 5}, turn), (Permits{0, 0}));
  EXPECT_EQ(WaterFill(9, Permits{-7, 5}, turn), (Permits{0, 5}));
  const std::int64_t most = MaxRate::kMaxPerSecond;
  EXPECT_EQ(SumOf(WaterFill(most, Permits(2'000, most), turn)), most);
}

TEST(WaterFillTest, IsMaxMinFairWhateverIsAsked) {
  Random random(7);
  for (int run = 0; run < 5'000; ++run) {
    Permits demands;
    for (auto n = random.In(1, 12); n > 0; --n) demands.push_back(random.In(-1, random.OneIn(2) ? 3 : 40));
    const std::int64_t available = random.In(0, 60);
    const auto shares = WaterFill(available, demands, Turn::Of(random.Of(testing::SomeRates()), kFirst + run));
    std::int64_t asked = 0;
    for (const auto demand : demands) asked += std::max<std::int64_t>(0, demand);
    ASSERT_EQ(SumOf(shares), std::min(available, asked)) << "run " << run;
    std::int64_t highest = 0;
    for (const auto share : shares) highest = std::max(highest, share);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      ASSERT_LE(shares[i], std::max<std::int64_t>(0, demands[i])) << "run " << run;
      // Who is left wanting has as much as anybody, but for an odd permit.
      if (shares[i] < demands[i]) {
        ASSERT_GE(shares[i], highest - 1) << "run " << run;
      }
    }
  }
}

TEST(WaterFillTest, EverybodyHasItsTurnAtTheOddPermits) {
  for (const auto& rate : {Rate("1/s"), Rate("3/s"), Rate("23/s"), Rate("0.3/s"), Rate("1000/h")}) {
    for (const int workers : {2, 3, 7, 10}) {
      Permits had(static_cast<std::size_t>(workers), 0);
      std::int64_t all = 0;
      Label w = kFirst;
      for (; all < 60 * workers; ++w) {
        const auto shares = WaterFill(rate.Total(w), Permits(had.size(), 1'000), Turn::Of(rate, w));
        for (std::size_t i = 0; i < had.size(); ++i) had[i] += shares[i];
        all += rate.Total(w);
      }
      const auto [least, most] = std::minmax_element(had.begin(), had.end());
      EXPECT_LE(*most - *least, 1) << rate.ToString() << ", " << workers << " workers";
    }
  }
}

}  // namespace
}  // namespace posthorn::ratelimit
