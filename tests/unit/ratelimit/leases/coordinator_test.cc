#include "ratelimit/leases/coordinator.h"

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::GrantOf;
using testing::kFirst;
using testing::kLimit;
using testing::TermsOf;
using Phase = Coordinator::Phase;

WallTime In(Label windows) { return StartOf(kFirst + windows); }

Report ReportOf(Incarnation from, GrantId held, Label label, std::int64_t committed, std::int64_t demand) {
  LimitReport report;
  report.limit = kLimit;
  report.held = held;
  report.label = label;
  report.committed = committed;
  report.demand = demand;
  return {from, std::nullopt, {report}};
}

std::vector<Grant> GrantsIn(const std::vector<ControlRecord>& records) {
  std::vector<Grant> grants;
  for (const auto& record : records) {
    if (const auto* grant = std::get_if<Grant>(&record)) grants.push_back(*grant);
  }
  return grants;
}

Coordinator Leading(Incarnation self = 100) {
  Coordinator coordinator({self, 4});
  coordinator.SetTerms(kLimit, TermsOf("10/s"), In(0));
  coordinator.OnLog(coordinator.Claim(In(0)), In(0));
  return coordinator;
}

TEST(CoordinatorTest, LeadsWhenItsOwnEpochIsInForce) {
  Coordinator coordinator({100, 4});
  EXPECT_EQ(coordinator.phase(), Phase::kReading);
  const Epoch claim = coordinator.Claim(In(0));
  EXPECT_EQ(coordinator.phase(), Phase::kClaiming);
  EXPECT_TRUE(coordinator.Plan(In(0)).empty());
  coordinator.OnLog(claim, In(0));
  EXPECT_EQ(coordinator.phase(), Phase::kLeading);
}

TEST(CoordinatorTest, OfTwoWithTheSameNumberTheSecondInTheLogIsFenced) {
  Coordinator one({100, 4});
  Coordinator two({200, 4});
  const Epoch first = one.Claim(In(0));
  const Epoch second = two.Claim(In(0));
  ASSERT_EQ(first.number, second.number);
  for (auto* coordinator : {&one, &two}) {
    coordinator->OnLog(first, In(0));
    coordinator->OnLog(second, In(0));
  }
  EXPECT_EQ(one.phase(), Phase::kLeading);
  EXPECT_EQ(two.phase(), Phase::kFenced);
}

TEST(CoordinatorTest, AnEpochOfSomebodyElseEndsIt) {
  Coordinator coordinator = Leading();
  coordinator.OnLog(Epoch{coordinator.epoch() + 1, 200}, In(1));
  EXPECT_EQ(coordinator.phase(), Phase::kFenced);
  coordinator.OnReport(ReportOf(1, {}, kFirst, 0, 5), In(1));
  EXPECT_TRUE(coordinator.Plan(In(2)).empty());
}

TEST(CoordinatorTest, AClaimThatIsLostIsMadeAgainWithAHigherNumber) {
  Coordinator coordinator({100, 4});
  const Epoch lost = coordinator.Claim(In(0));
  const Epoch again = coordinator.Claim(In(0));
  EXPECT_GT(again.number, lost.number);
  coordinator.OnLog(again, In(0));
  EXPECT_EQ(coordinator.phase(), Phase::kLeading);
  coordinator.OnLog(lost, In(0));  // late after all
  EXPECT_EQ(coordinator.phase(), Phase::kLeading);
}

TEST(CoordinatorTest, AReportThatIsTheFirstWordOfAWindowCountsInItsPlan) {
  Coordinator coordinator = Leading();
  (void)coordinator.Plan(In(3));
  coordinator.OnReport(ReportOf(1, {}, kFirst + 4, 0, 20), In(4));
  EXPECT_EQ(GrantsIn(coordinator.Plan(In(4))).size(), 1U);
}

TEST(CoordinatorTest, GrantsWhatAReportAsksForAndRenewsItsEpochInEachWindow) {
  Coordinator coordinator = Leading();
  coordinator.OnReport(ReportOf(1, {}, kFirst, 0, 20), In(0));
  const auto grants = GrantsIn(coordinator.Plan(In(0)));
  ASSERT_EQ(grants.size(), 1U);
  EXPECT_EQ(grants[0].shares, (std::vector<std::int64_t>{10, 10, 10, 10}));
  EXPECT_EQ(grants[0].id.epoch, coordinator.epoch());
  EXPECT_TRUE(coordinator.Plan(In(0)).empty());
  const auto next = coordinator.Plan(In(1));
  ASSERT_FALSE(next.empty());
  EXPECT_EQ(std::get<Epoch>(next[0]), (Epoch{coordinator.epoch(), 100, true}));
}

TEST(CoordinatorTest, AfterATakeOverItWaitsForTheWorkersOfTheLogForTwoWindows) {
  Coordinator coordinator({200, 4});
  coordinator.SetTerms(kLimit, TermsOf("10/s"), In(0));
  coordinator.OnLog(Epoch{5, 100}, In(0));
  coordinator.OnLog(GrantOf(1, {5, 1}, kFirst, {5, 5, 5, 5}), In(0));
  coordinator.OnLog(GrantOf(2, {5, 2}, kFirst, {5, 5, 5, 5}), In(0));
  coordinator.OnLog(GrantOf(3, {4, 9}, kFirst, {5, 5, 5, 5}), In(0));  // void
  coordinator.OnLog(coordinator.Claim(In(0)), In(0));
  coordinator.OnReport(ReportOf(1, {5, 1}, kFirst, 5, 20), In(0));
  EXPECT_TRUE(GrantsIn(coordinator.Plan(In(1))).empty());
  EXPECT_EQ(coordinator.View(kLimit)->exposure, 10);
  const auto grants = GrantsIn(coordinator.Plan(In(2)));
  ASSERT_EQ(grants.size(), 1U);
  EXPECT_EQ(grants[0].shares, (std::vector<std::int64_t>{5, 5, 10, 10}));  // worker 2 is silent: its labels stay
}

TEST(CoordinatorTest, AWorkersShareEndsWithItsLeaseWhenItFallsSilent) {
  Coordinator coordinator = Leading();
  coordinator.OnReport(ReportOf(1, {}, kFirst, 0, 20), In(0));
  coordinator.OnReport(ReportOf(2, {}, kFirst, 0, 20), In(0));
  ASSERT_EQ(GrantsIn(coordinator.Plan(In(0))).size(), 2U);
  for (Label w = 1; w < 12; ++w) {
    coordinator.OnReport(ReportOf(1, {}, kFirst + w, 5, 20), In(w));
    for (const auto& grant : GrantsIn(coordinator.Plan(In(w)))) EXPECT_TRUE(grant.to == 1 || w <= 2) << w;
  }
  EXPECT_EQ(coordinator.View(kLimit)->members.at(0).share, 10);
  EXPECT_FALSE(coordinator.View(kLimit)->members.at(1).live);
}

TEST(CoordinatorTest, DemandRisesAtOnceAndFallsAfterAWindowThatAskedForLess) {
  Coordinator coordinator = Leading();
  coordinator.OnReport(ReportOf(1, {}, kFirst, 0, 8), In(0));
  coordinator.OnReport(ReportOf(1, {}, kFirst, 0, 3), In(0));
  EXPECT_EQ(coordinator.View(kLimit)->members.at(0).demand, 8);
  coordinator.OnReport(ReportOf(1, {}, kFirst + 1, 0, 3), In(1));
  EXPECT_EQ(coordinator.View(kLimit)->members.at(0).demand, 8);
  coordinator.OnReport(ReportOf(1, {}, kFirst + 2, 0, 3), In(2));
  EXPECT_EQ(coordinator.View(kLimit)->members.at(0).demand, 3);
  coordinator.OnReport(ReportOf(1, {}, kFirst + 1, 0, 100), In(2));  // late
  EXPECT_EQ(coordinator.View(kLimit)->members.at(0).demand, 3);
}

TEST(CoordinatorTest, AReportThatMakesNoSenseHurtsNobodyElse) {
  Coordinator coordinator = Leading();
  coordinator.SetTerms("other", TermsOf("10/s"), In(0));
  Report report = ReportOf(1, {coordinator.epoch(), 77}, kFirst + 100'000, -5, 20);
  LimitReport sane = report.limits[0];
  sane.limit = "other";
  sane.held = {};
  sane.label = kFirst;
  sane.committed = 0;
  report.limits.push_back(sane);
  LimitReport unknown = sane;
  unknown.limit = "never configured";
  report.limits.push_back(unknown);
  coordinator.OnReport(report, In(0));
  const auto grants = GrantsIn(coordinator.Plan(In(0)));
  ASSERT_EQ(grants.size(), 1U);
  EXPECT_EQ(grants[0].limit, "other");
  EXPECT_EQ(coordinator.View(kLimit)->senseless_reports, 1U);
  EXPECT_EQ(coordinator.View("other")->senseless_reports, 0U);
  EXPECT_FALSE(coordinator.View("never configured"));
}

}  // namespace
}  // namespace posthorn::ratelimit
