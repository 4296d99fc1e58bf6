#include "ratelimit/leases/planner.h"

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::GrantOf;
using testing::kFirst;
using testing::TermsOf;
using Plans = std::vector<std::vector<std::int64_t>>;

// Workers 1, 2, ... that have reported, hold nothing and ask for `demands`.
struct Planned {
  Planned(const std::string& rate, std::vector<std::int64_t> demands, int length = 2)
      : ledger(TermsOf(rate), {length, 2, Mutation::kNone}, kFirst), asked(std::move(demands)) {
    LimitReport report;
    report.label = kFirst;
    for (Incarnation who = 1; who <= asked.size(); ++who) ledger.Hear(who, report, std::nullopt);
  }
  Plans Shares(Label windows = 2) {
    std::vector<Wish> wishes;
    for (Incarnation who = 1; who <= asked.size(); ++who) {
      wishes.push_back({&ledger.holders().at(who), asked[who - 1]});
    }
    return PlanShares(ledger, wishes, kFirst, kFirst + windows);
  }
  void Send(Incarnation to, std::vector<std::int64_t> shares) {
    ledger.Send(GrantOf(to, {1, ++sequence}, kFirst, std::move(shares), ledger.terms()));
  }
  void Acknowledge(Incarnation who) {
    LimitReport report;
    report.held = {1, sequence};
    report.label = kFirst;
    ledger.Hear(who, report, std::nullopt);
  }
  LeaseLedger ledger;
  std::vector<std::int64_t> asked;
  std::uint64_t sequence = 0;
};

TEST(PlannerTest, SharesFollowDemandAndWhatNobodyAsksForIsSpread) {
  EXPECT_EQ(Planned("100/s", {500, 10, 500}).Shares(1), (Plans{{45}, {10}, {45}}));
  EXPECT_EQ(Planned("100/s", {60, 0}).Shares(1), (Plans{{80}, {20}}));  // 60 and 1, and of 39 each a half
}

TEST(PlannerTest, AnIdleWorkerKeepsOnePermitWhereThereAreTwoForEverybody) {
  EXPECT_EQ(Planned("6/s", {100, 100, 0}).Shares(1)[2], std::vector<std::int64_t>{1});
  EXPECT_EQ(Planned("5/s", {100, 100, 0}).Shares(1)[2], std::vector<std::int64_t>{0});
}

TEST(PlannerTest, AShareAboveItsTargetIsCutAtOnceAndTheOtherGrowsWhenThatIsAcknowledged) {
  Planned fleet("10/s", {0, 10});
  fleet.Send(1, {10, 10});
  EXPECT_EQ(fleet.Shares(), (Plans{{1, 1}, {0, 0}}));
  fleet.Send(1, {1, 1});
  EXPECT_EQ(fleet.Shares(), (Plans{{1, 1}, {0, 0}}));
  fleet.Acknowledge(1);
  EXPECT_EQ(fleet.Shares()[1], (std::vector<std::int64_t>{9, 9}));
}

TEST(PlannerTest, AboveTheTotalNothingGrows) {
  Planned fleet("10/s", {10, 10});
  fleet.Send(1, {5, 5});
  fleet.Send(2, {5, 5});
  ASSERT_TRUE(fleet.ledger.SetTerms(TermsOf("4/s", 2), kFirst));
  EXPECT_EQ(fleet.Shares(), (Plans{{2, 2}, {2, 2}}));
}

TEST(PlannerTest, AboveALoweredTotalNobodyHasMoreThanItWouldMakeOfItsOldLease) {
  Planned fleet("1000/s", {0, 1'000});
  fleet.Send(1, {500, 500});
  fleet.Send(2, {500, 500});
  ASSERT_TRUE(fleet.ledger.SetTerms(TermsOf("100/s", 2), kFirst));
  // Worker 1 may hold its old lease, and makes 50 of it when it learns of the new total.
  EXPECT_EQ(fleet.Shares()[1], (std::vector<std::int64_t>{50, 50}));
  fleet.Send(1, {1, 1});
  fleet.Send(2, {50, 50});
  EXPECT_EQ(fleet.Shares()[1], (std::vector<std::int64_t>{50, 50}));
}

TEST(PlannerTest, FromTwoLabelsAheadALargeTotalKeepsATwentiethBack) {
  const auto shares = Planned("100/s", {1'000}, 4).Shares(4);
  EXPECT_EQ(shares[0], (std::vector<std::int64_t>{100, 100, 95, 95}));
  EXPECT_EQ(Planned("19/s", {1'000}, 4).Shares(4)[0], (std::vector<std::int64_t>{19, 19, 19, 19}));
}

TEST(PlannerTest, NothingIsPlannedAboveTheTotalWhateverIsAsked) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto shares = Planned("7/s", {most, -most, most, 0}).Shares();
  for (std::size_t w = 0; w < 2; ++w) {
    std::int64_t sum = 0;
    for (const auto& of_worker : shares) {
      EXPECT_GE(of_worker[w], 0);
      sum += of_worker[w];
    }
    EXPECT_EQ(sum, 7);
  }
}

TEST(PlannerTest, AGrantIsWorthSendingWhenALeaseEndsOrSomethingChanges) {
  Planned fleet("1000/s", {10});
  fleet.Send(1, {500, 500});
  const auto& holder = fleet.ledger.holders().at(1);
  const std::vector<std::int64_t> same{500, 500};
  const std::vector<std::int64_t> nearly{519, 500};
  const std::vector<std::int64_t> other{520, 500};
  EXPECT_FALSE(WorthSending(fleet.ledger, holder, kFirst, same, true));
  EXPECT_FALSE(WorthSending(fleet.ledger, holder, kFirst, nearly, false));
  EXPECT_TRUE(WorthSending(fleet.ledger, holder, kFirst, nearly, true));
  EXPECT_TRUE(WorthSending(fleet.ledger, holder, kFirst, other, false));
  EXPECT_TRUE(WorthSending(fleet.ledger, holder, kFirst + 1, same, false));
}

}  // namespace
}  // namespace posthorn::ratelimit
