#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "ratelimit/limiter.h"
#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Rate;
using testing::seconds;
using testing::TakeAll;

constexpr Incarnation kSelf = 7;

struct LeasedLimiterTest : ::testing::Test {
  static Limiter Make(std::string_view rate, std::uint32_t slots = 0,
                      std::optional<std::uint32_t> slot = std::nullopt) {
    Limiter::Options options;
    Lease::Process process;
    process.self = kSelf;
    process.slot = slot;
    process.started = kFirst;
    options.by_lease = {"l", process};
    return {PlanOf(rate, 1, slots), options, At(Nanoseconds(0))};
  }
  static Plan PlanOf(std::string_view rate, std::uint64_t revision, std::uint32_t slots = 0) {
    return {Rate(rate), Burst::kAtOnce, LeaseDealing{slots, revision}};
  }
  static Grant GrantOf(std::uint64_t sequence, Label first, std::vector<std::int64_t> shares,
                       std::string_view rate = "10/s") {
    return {"l", kSelf, {1, sequence}, first, std::move(shares), {Rate(rate), 0, 1}};
  }
};

TEST_F(LeasedLimiterTest, NothingBeforeTheFirstGrantAndItsShareFromThenOn) {
  Limiter limiter = Make("10/s");
  EXPECT_EQ(limiter.Acquire(At(Nanoseconds(0)), seconds(1)), Decision(WontOpen{}));
  const auto taken = limiter.Accept(GrantOf(1, kFirst, {3, 0, 5}), At(milliseconds(100)));
  EXPECT_TRUE(taken.held);
  EXPECT_TRUE(taken.sooner);
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(100))), 3);
  EXPECT_EQ(limiter.Acquire(At(milliseconds(1100)), seconds(5)), Decision(TryAgainAt{At(seconds(2))}));
  EXPECT_EQ(TakeAll(limiter, At(seconds(2))), 5);
  EXPECT_EQ(TakeAll(limiter, At(seconds(3))), 0) << "the lease is over";
  EXPECT_EQ(limiter.StateOfLease(At(seconds(3)))->cap.source, Lease::Source::kNothing);
}

TEST_F(LeasedLimiterTest, SaysWhatAGrantChanges) {
  Limiter limiter = Make("10/s");
  (void)limiter.Accept(GrantOf(2, kFirst, {5, 5}), At(Nanoseconds(0)));
  EXPECT_FALSE(limiter.Accept(GrantOf(1, kFirst, {9, 9}), At(Nanoseconds(0))).held) << "older";
  const auto renewed = limiter.Accept(GrantOf(3, kFirst, {5, 5, 5}), At(Nanoseconds(0)));
  EXPECT_TRUE(renewed.held);
  EXPECT_FALSE(renewed.less);
  EXPECT_TRUE(limiter.Accept(GrantOf(4, kFirst, {5, 4, 5}), At(Nanoseconds(0))).less);
  EXPECT_TRUE(limiter.Accept(GrantOf(5, kFirst, {6, 4, 5}), At(Nanoseconds(0))).sooner);
}

TEST_F(LeasedLimiterTest, ACutBelowWhatIsUsedStaysUsedAndIsReported) {
  Limiter limiter = Make("10/s");
  (void)limiter.Accept(GrantOf(1, kFirst, {10, 10}), At(Nanoseconds(0)));
  for (int i = 0; i < 6; ++i) (void)limiter.Acquire(At(Nanoseconds(0)), Nanoseconds(0));
  (void)limiter.Accept(GrantOf(2, kFirst, {2, 2}), At(milliseconds(10)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(20))), 0);
  auto report = limiter.Report(50, true, At(milliseconds(30)));
  EXPECT_EQ(report.limit, "l");
  EXPECT_EQ(report.label, kFirst);
  EXPECT_EQ(report.committed, 6);
  EXPECT_EQ(report.held, (GrantId{1, 2}));
  EXPECT_EQ(report.demand, 50);
  EXPECT_TRUE(report.starved);
  report = limiter.Report(0, false, At(seconds(1)));
  EXPECT_EQ(report.label, kFirst + 1);
  EXPECT_EQ(report.used_before, 6);
  EXPECT_EQ(report.committed, 2);
}

// A thread with a newer clock reading has moved the counter on: the report must not be of the window before.
TEST_F(LeasedLimiterTest, ReportsAreOfTheWindowThatIsCounted) {
  Limiter limiter = Make("10/s");
  (void)limiter.Accept(GrantOf(1, kFirst, {10, 10}), At(Nanoseconds(0)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(1001))), 10);
  (void)limiter.Accept(GrantOf(2, kFirst, {2, 2}), At(milliseconds(999)));
  const auto report = limiter.Report(0, false, At(milliseconds(999)));
  EXPECT_EQ(report.label, kFirst + 1);
  EXPECT_EQ(report.committed, 10);
}

TEST_F(LeasedLimiterTest, ALowerRateCutsTheShareAtOnce) {
  Limiter limiter = Make("10/s");
  (void)limiter.Accept(GrantOf(1, kFirst, {6, 6}), At(Nanoseconds(0)));
  limiter.SetPlan(PlanOf("5/s", 2), At(milliseconds(10)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(10))), 3);
  limiter.SetPlan(PlanOf("0", 3), At(seconds(1)));
  EXPECT_EQ(TakeAll(limiter, At(seconds(1))), 0);
}

TEST_F(LeasedLimiterTest, FencedItAdmitsNothingAndLeftItSaysSo) {
  Limiter limiter = Make("10/s");
  (void)limiter.Accept(GrantOf(1, kFirst, {6, 6, 6}), At(Nanoseconds(0)));
  limiter.Fence(true, At(Nanoseconds(0)));
  EXPECT_EQ(TakeAll(limiter, At(Nanoseconds(0))), 0);
  EXPECT_EQ(limiter.Report(0, false, At(Nanoseconds(0))).committed, 6) << "it may be let go again";
  limiter.Fence(false, At(milliseconds(10)));
  EXPECT_EQ(TakeAll(limiter, At(milliseconds(10))), 6);
  limiter.Leave(At(seconds(1)));
  EXPECT_EQ(TakeAll(limiter, At(seconds(1))), 0);
  const auto report = limiter.Report(9, true, At(seconds(1)));
  EXPECT_TRUE(report.leaving);
  EXPECT_EQ(report.demand, 0);
  EXPECT_EQ(report.committed, 0);
}

TEST_F(LeasedLimiterTest, TheSlotIsThereWithoutALease) {
  Limiter limiter = Make("10/s", 2, 1);
  EXPECT_EQ(limiter.PartialLimit(At(seconds(5))), 0) << "a predecessor may hold a lease";
  EXPECT_EQ(limiter.PartialLimit(At(seconds(20))), 5);
  EXPECT_EQ(limiter.StateOfLease(At(seconds(20)))->cap.source, Lease::Source::kFallback);
}

// Threads take while grants cut and raise: what a report says may still be used is never exceeded afterwards.
TEST_F(LeasedLimiterTest, NobodyTakesMoreThanWasReported) {
  for (std::uint64_t round = 1; round <= 200; ++round) {
    Limiter limiter = Make("1000/s");
    (void)limiter.Accept(GrantOf(1, kFirst, {1000}, "1000/s"), At(Nanoseconds(0)));
    std::vector<std::thread> takers;
    for (int i = 0; i < 3; ++i) {
      takers.emplace_back([&limiter] {
        for (int n = 0; n < 300; ++n) (void)limiter.Acquire(At(milliseconds(1)), Nanoseconds(0));
      });
    }
    (void)limiter.Accept(GrantOf(2, kFirst, {static_cast<std::int64_t>(round)}, "1000/s"), At(milliseconds(1)));
    const auto report = limiter.Report(0, false, At(milliseconds(1)));
    for (auto& taker : takers) taker.join();
    EXPECT_LE(limiter.UsedIn(kFirst), report.committed);
  }
}

}  // namespace
}  // namespace posthorn::ratelimit
