#include "ratelimit/baselines/hermes_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace posthorn::ratelimit::baselines {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

double Sum(const std::vector<double>& rates) { return std::accumulate(rates.begin(), rates.end(), 0.0); }

TEST(HermesBalance, WhoeverHasJustComeResetsEverybodyToAnEqualPart) {
  EXPECT_THAT(HermesBalance(1000, std::vector<HermesConsumer>{{900, 1.0}, {100, 0.1}, {{}, {}}, {{}, {}}}),
              ElementsAre(250, 250, 250, 250));
}

TEST(HermesBalance, AChangedLimitAndALostConsumerResetEverybody) {
  EXPECT_THAT(HermesBalance(500, std::vector<HermesConsumer>{{900, 1.0}, {100, 0.1}}), ElementsAre(250, 250));
  EXPECT_THAT(HermesBalance(1000, std::vector<HermesConsumer>{{900, 1.0}}), ElementsAre(1000));
}

TEST(HermesBalance, ALimitOfOneIsOnePerSecondForEachConsumer) {
  EXPECT_THAT(HermesBalance(1, std::vector<HermesConsumer>(2)), ElementsAre(1, 1));  // measured: 1.9 to 2.0
  EXPECT_EQ(Sum(HermesBalance(1, std::vector<HermesConsumer>(10))), 10);
  EXPECT_EQ(Sum(HermesBalance(5, std::vector<HermesConsumer>(10, {1, 1.0}))), 10);
}

TEST(HermesBalance, NothingChangesWhileNobodyIsBusy) {
  EXPECT_THAT(HermesBalance(1000, std::vector<HermesConsumer>{{900, 0.0}, {100, 0.9}}), ElementsAre(900, 100));
}

TEST(HermesBalance, WhoIsNotBusyGivesAwayByItsUsage) {
  const auto left = [](double used) {
    return HermesBalance(1000, std::vector<HermesConsumer>{{500, used}, {500, 1.0}}).front();
  };
  EXPECT_EQ(left(0), 1);                                    // all, but for the least one
  EXPECT_THAT(left(0.5), DoubleNear(500 * 2.0 / 3, 1e-9));  // a third
  EXPECT_THAT(left(0.8), DoubleNear(500 * 8.0 / 9, 1e-9));  // 11 %
  const auto rates = HermesBalance(1000, std::vector<HermesConsumer>{{18, 0.5}, {982, 1.0}});
  EXPECT_THAT(rates, ElementsAre(18, 982));  // a third of 18 is less than 1 % of the limit
}

TEST(HermesBalance, TheBusyGetInProportionToWhatTheyHave) {
  const auto rates = HermesBalance(1000, std::vector<HermesConsumer>{{400, 0.0}, {300, 1.0}, {296, 1.0}, {4, {}}});
  EXPECT_THAT(rates,
              ElementsAre(1, DoubleNear(300 + 399 * 300.0 / 596, 1e-9), DoubleNear(296 + 399 * 296.0 / 596, 1e-9), 4));
}

// Known of Hermes's own balancer: with 999 beside 1, both always busy, it takes 16 rounds, eight minutes.
TEST(HermesBalance, TheGreedyGivesBackInSixteenRounds) {
  std::vector<double> rates = {999, 1};
  int rounds = 0;
  for (; rates[1] < 450 && rounds < 100; ++rounds) {
    rates = HermesBalance(1000, std::vector<HermesConsumer>{{rates[0], 1.0}, {rates[1], 1.0}});
    EXPECT_THAT(Sum(rates), DoubleNear(1000, 1e-6));
  }
  EXPECT_THAT(rounds, ::testing::AllOf(::testing::Ge(14), ::testing::Le(16)));
}

TEST(HermesUsage, IsToldAgainWhenItHasMovedByMoreThanNinePercent) {
  HermesUsage usage;
  EXPECT_EQ(usage.Tell(50, 100), 0.5);
  EXPECT_EQ(usage.Tell(58, 100), 0.5);
  EXPECT_EQ(usage.Tell(60, 100), 0.6);
  EXPECT_EQ(usage.Tell(500, 100), 1.0);
  EXPECT_EQ(usage.Tell(92, 100), 1.0);
  EXPECT_EQ(usage.Tell(0.5, 0.5), 0.5);  // against one per second at least
}

}  // namespace
}  // namespace posthorn::ratelimit::baselines
