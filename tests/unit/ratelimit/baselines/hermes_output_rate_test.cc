#include "ratelimit/baselines/hermes_output_rate.h"

#include <gtest/gtest.h>

#include "../testing.h"

namespace posthorn::ratelimit::baselines {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::At;
using Mode = HermesOutputRate::Mode;

// 30 s each: 120, 330 and 630 s, and the phases of the intervals before them. Measured on 2.6.22 with two nodes: 105,
// 316 and 584 s to 50, 90 and 98 %.
TEST(HermesOutputRate, ReachesNinetyPercentOfItsMaxRateInElevenRounds) {
  HermesOutputRate output;
  const auto rounds_to = [&](double part) {
    static int rounds = 0;
    for (; output.rate() < part * 500; ++rounds) output.Recalculate(100, 0, 500);
    return rounds;
  };
  EXPECT_EQ(rounds_to(0.50), 4);
  EXPECT_EQ(rounds_to(0.90), 11);
  EXPECT_EQ(rounds_to(0.99), 21);
}

TEST(HermesOutputRate, StaysFallsAndSlowsDownByWhatFails) {
  HermesOutputRate output;
  for (int i = 0; i < 60; ++i) output.Recalculate(100, 0, 500);
  const double full = output.rate();
  EXPECT_EQ(output.Recalculate(97, 3, 500), full);
  EXPECT_EQ(output.Recalculate(80, 20, 500), full * 0.8);
  EXPECT_EQ(output.Recalculate(40, 60, 500), 1);
  EXPECT_EQ(output.mode(), Mode::kSlow);
  EXPECT_EQ(output.Recalculate(10, 20, 500), 1.0 / 60);
  EXPECT_EQ(output.mode(), Mode::kHeartbeat);
  EXPECT_EQ(output.Recalculate(0, 0, 500), 1.0 / 60);
  EXPECT_EQ(output.Recalculate(1, 0, 500), 1);
  EXPECT_EQ(output.Recalculate(30, 0, 500), 1);
  EXPECT_EQ(output.mode(), Mode::kNormal);
  EXPECT_GT(output.Recalculate(30, 0, 500), 100);
}

TEST(HermesOutputRate, IsNeverAboveTheMaxRate) {
  HermesOutputRate output;
  for (int i = 0; i < 60; ++i) output.Recalculate(100, 0, 500);
  EXPECT_EQ(output.Recalculate(100, 0, 20), 20);
}

int TakenWithin(HermesPacer& pacer, Nanoseconds from, Nanoseconds until) {
  int taken = 0;
  for (Nanoseconds t = from; t <= until; t += milliseconds(1)) {
    while (pacer.Take(At(t))) ++taken;
  }
  return taken;
}

TEST(HermesPacer, LetsTwiceTheRateOutInTheSecondAfterAPause) {
  HermesPacer pacer(100, At(seconds(0)));
  EXPECT_EQ(TakenWithin(pacer, seconds(3), seconds(4)), 201);  // measured: 201
}

TEST(HermesPacer, LetsTheRateOutOtherwise) {
  HermesPacer pacer(100, At(seconds(0)));
  TakenWithin(pacer, seconds(0), seconds(1));
  EXPECT_NEAR(TakenWithin(pacer, milliseconds(1001), seconds(11)), 1000, 1);
}

TEST(HermesPacer, WhoSleepsDoesNotHearOfAHigherRate) {
  HermesPacer pacer(1.0 / 20, At(seconds(0)));
  EXPECT_TRUE(pacer.Take(At(seconds(0))));
  EXPECT_FALSE(pacer.Take(At(seconds(0))));
  pacer.SetRate(1000, At(seconds(1)));
  EXPECT_EQ(TakenWithin(pacer, seconds(1), milliseconds(19'999)), 0);  // measured: 20.0 s
  EXPECT_TRUE(pacer.Take(At(seconds(20))));
}

}  // namespace
}  // namespace posthorn::ratelimit::baselines
