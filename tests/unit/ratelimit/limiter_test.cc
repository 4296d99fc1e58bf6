#include "ratelimit/limiter.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Rate;
using testing::seconds;
using testing::SlotPlan;
using testing::TakeAll;

// Constructed early enough that kFirst is past its first label.
constexpr seconds kEarlier(-10);

Limiter Alone(std::string_view rate, Burst burst = Burst::kAtOnce) {
  return Limiter(SlotPlan(Rate(rate), 0, 1, burst), {}, At(kEarlier));
}

TEST(Limiter, StartsWithTheFirstWindowAfterItsFleetHasSettled) {
  Limiter limiter(SlotPlan(Rate("5/s"), 0, 1), {}, At(milliseconds(300)));
  EXPECT_EQ(limiter.Acquire(At(milliseconds(400)), seconds(5)), Decision(TryAgainAt{At(seconds(2))}));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(1999))), 0);
  EXPECT_EQ(TakeAll(limiter, At(seconds(2))), 5);
}

TEST(Limiter, AnswersWithinTheMaximumWait) {
  Limiter limiter = Alone("2/s", Burst::kSmooth);
  EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), Nanoseconds(0)), Decision(Admitted{kFirst}));
  EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), milliseconds(489)), Decision(WontOpen{}));
  EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), milliseconds(490)), Decision(TryAgainAt{At(milliseconds(490))}));
  EXPECT_EQ(limiter.Acquire(At(milliseconds(490)), Nanoseconds(0)), Decision(Admitted{kFirst}));
  EXPECT_EQ(limiter.Acquire(At(milliseconds(500)), milliseconds(499)), Decision(WontOpen{}));
  EXPECT_EQ(limiter.Acquire(At(milliseconds(500)), Nanoseconds::max()), Decision(TryAgainAt{At(seconds(1))}));
}

TEST(Limiter, SaysWhenARareLimitOpens) {
  Limiter limiter(SlotPlan(Rate("1/h"), 95, 96), {}, At(kEarlier));
  EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), std::chrono::hours(1)), Decision(WontOpen{}));
  const auto decision = limiter.Acquire(At(Nanoseconds(0)), std::chrono::hours(97));
  ASSERT_TRUE(std::holds_alternative<TryAgainAt>(decision));
  EXPECT_EQ(TakeAll(limiter, std::get<TryAgainAt>(decision).at), 1);
}

TEST(Limiter, WithoutAShareNothingEverOpens) {
  for (const Plan& plan : {SlotPlan(Rate("0"), 0, 1), SlotPlan(Rate("9/s"), 3, 3), SlotPlan(Rate("9/s"), 0, 0),
                           Plan{Rate("9/s"), Burst::kSmooth, PartitionDealing{{{"orders", 12, {}}}}}}) {
    Limiter limiter(plan, {}, At(kEarlier));
    EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), Nanoseconds::max()), Decision(WontOpen{}));
  }
}

TEST(Limiter, ThePhaseSpreadsThoseWhoWaitAndCostsNoPermit) {
  for (const double phase : {0.0, 0.5, 0.999}) {
    for (const auto* rate : {"1/s", "2/s", "100/s"}) {
      Limiter::Options options;
      options.phase = phase;
      Limiter limiter(SlotPlan(Rate(rate), 0, 1, Burst::kSmooth), options, At(kEarlier));
      WallTime now = At(Nanoseconds(0));
      while (LabelAt(now) < kFirst + 3) {
        const auto decision = limiter.Acquire(now, seconds(3));
        if (const auto* later = std::get_if<TryAgainAt>(&decision)) {
          ASSERT_GT(later->at, now);
          if (LabelAt(later->at) != LabelAt(now)) {
            EXPECT_EQ(limiter.UsedIn(LabelAt(now)), Rate(rate).Total(kFirst)) << rate << " phase " << phase;
            EXPECT_LE(later->at - StartOf(LabelAt(later->at)), kWindow / 4);
          }
          now = later->at;
        }
      }
    }
  }
}

TEST(Limiter, APermitOfAPassedWindowIsRenewedOrLost) {
  Limiter limiter = Alone("2/s");
  EXPECT_EQ(limiter.Acquire(At(milliseconds(999)), Nanoseconds(0)), Decision(Admitted{kFirst}));
  EXPECT_EQ(limiter.Renew(At(milliseconds(999)), kFirst), kFirst);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1001)), kFirst), kFirst + 1);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1001)), kFirst), kFirst + 1);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1001)), kFirst), std::nullopt);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1001)), kFirst + 1), kFirst + 1);
  EXPECT_EQ(limiter.UsedIn(kFirst), 1);
  EXPECT_EQ(limiter.UsedIn(kFirst + 1), 2);
  EXPECT_EQ(limiter.UsedIn(kFirst + 2), 0);
}

TEST(Limiter, RenewingDoesNotWaitForTheEnvelope) {
  Limiter limiter = Alone("3/s", Burst::kSmooth);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1)), kFirst - 1), kFirst);
  EXPECT_EQ(limiter.Renew(At(milliseconds(1)), kFirst - 1), kFirst);
  EXPECT_EQ(limiter.Acquire(At(milliseconds(1)), Nanoseconds(0)), Decision(WontOpen{}));
}

TEST(Limiter, ALoweredLimitActsInTheRunningWindow) {
  Limiter limiter = Alone("10/s");
  for (int i = 0; i < 4; ++i) (void)limiter.Acquire(At(milliseconds(i)), Nanoseconds(0));
  limiter.SetPlan(SlotPlan(Rate("6/s"), 0, 1), At(milliseconds(100)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(101))), 2);
  limiter.SetPlan(SlotPlan(Rate("0"), 0, 1), At(milliseconds(200)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(201))), 0);
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(201))), 0);
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(1201))), 0);
}

TEST(Limiter, ARaisedLimitActsInTheRunningWindowWithoutACatchUpBurst) {
  Limiter limiter = Alone("100/s", Burst::kSmooth);
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(490))), 51);
  limiter.SetPlan(SlotPlan(Rate("1000/s"), 0, 1, Burst::kSmooth), At(milliseconds(490)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(490))), 1000);
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(490))), 1);
  std::int64_t most_in_ten_ms = 0;
  for (int ms = 500; ms < 1000; ms += 10)
    most_in_ten_ms = std::max(most_in_ten_ms, TakeAll(limiter, At(milliseconds(ms))));
  EXPECT_LE(most_in_ten_ms, 22);
  EXPECT_EQ(limiter.UsedIn(kFirst), 1000);
}

TEST(Limiter, TheSamePlanAgainChangesNothing) {
  Limiter limiter = Alone("5/s");
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(0))), 5);
  limiter.SetPlan(SlotPlan(Rate("5/s"), 0, 1), At(milliseconds(10)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(10))), 0);
}

TEST(Limiter, AChangedNumberOfInstancesIsExactFromTheSecondWindowOn) {
  Limiter limiter(SlotPlan(Rate("1/s"), 0, 1), {}, At(kEarlier));
  EXPECT_EQ(limiter.PartialLimit(At(Nanoseconds(0))), 1);
  limiter.SetPlan(SlotPlan(Rate("1/s"), 0, 3), At(milliseconds(500)));
  for (Label w = kFirst; w < kFirst + 9; ++w) {
    EXPECT_EQ(limiter.PartialLimit(StartOf(w)), w % 3 == 0 ? 1 : 0) << w - kFirst;
  }
  limiter.SetPlan(SlotPlan(Rate("1/s"), 0, 1), At(milliseconds(9500)));
  EXPECT_EQ(limiter.PartialLimit(At(seconds(11))), 1);
}

TEST(Limiter, APartitionsShareEndsAtOnceAndBeginsAfterTheClockOffset) {
  const auto plan = [](std::vector<std::uint32_t> owned) {
    return Plan{Rate("12/s"), Burst::kAtOnce, PartitionDealing{{{"orders", 12, std::move(owned)}}}};
  };
  Limiter limiter(plan({0, 1, 2, 3}), {}, At(kEarlier));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(100))), 4);
  limiter.SetPlan(plan({0, 1}), At(milliseconds(200)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(200))), 2);
  limiter.SetPlan(plan({0, 1, 2}), At(milliseconds(901)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(1000))), 2);
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(2000))), 3);
  limiter.SetPlan(plan({0, 1, 2, 7}), At(milliseconds(2900)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(3000))), 4);
}

TEST(Limiter, AGrownTopicsSharesShrinkAtOnceAndGrowAfterTheSessionTimeout) {
  const auto plan = [](std::uint32_t partitions, std::vector<std::uint32_t> owned) {
    return Plan{Rate("12/s"), Burst::kAtOnce, PartitionDealing{{{"orders", partitions, std::move(owned)}}}};
  };
  Limiter::Options options;
  options.timing.session_timeout = seconds(6);
  Limiter limiter(plan(4, {0, 1}), options, At(kEarlier));
  EXPECT_EQ(limiter.PartialLimit(At(Nanoseconds(0))), 6);
  limiter.SetPlan(plan(12, {0, 1}), At(milliseconds(100)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(100))), 2);
  limiter.SetPlan(plan(12, {8, 9, 10}), At(milliseconds(100)));
  EXPECT_EQ(limiter.PartialLimit(At(seconds(6))), 0);
  EXPECT_EQ(limiter.PartialLimit(At(seconds(7))), 3);
}

}  // namespace
}  // namespace posthorn::ratelimit
