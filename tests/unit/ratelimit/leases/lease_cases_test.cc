// What can happen to leases, case by case: the numbers are those of the list in ratelimit/leases/README.md. That no
// label is above its total in any of it, in any combination, is what lease_histories_test.cc and small_scope_test.cc
// show; here is what each case looks like, and that the permits go on being used.

#include <gtest/gtest.h>

#include <limits>

#include "calm_fleet.h"
#include "ratelimit/leases/planner.h"

namespace posthorn::ratelimit {
namespace {

using testing::CalmFleet;
using testing::GrantOf;
using testing::kFirst;
using testing::kLimit;
using testing::milliseconds;
using testing::Rate;
using testing::seconds;
using testing::TermsOf;

WallTime InWindow(Label windows) { return StartOf(kFirst + windows); }

Lease LeaseOf(Incarnation self, std::string_view rate = "10/s") {
  return {kLimit, {self, std::nullopt, kFirst}, TermsOf(rate), InWindow(0)};
}

std::int64_t Exposure(const LeaseLedger& ledger, Incarnation who, Label w) {
  return ledger.Exposure(ledger.holders().at(who), w);
}

void SendAndCheck(LeaseLedger& ledger, const Grant& grant) {
  ASSERT_TRUE(ledger.MaySend(grant));
  ledger.Send(grant);
}

// From the first window that matters on, every permit is spent.
void ExpectFullUse(const CalmFleet& fleet, Label from, Label to, std::int64_t total) {
  for (Label w = from; w < to; ++w) EXPECT_EQ(fleet.Spent(w), total) << "window " << w - kFirst;
  EXPECT_EQ(fleet.Above(), std::nullopt);
}

TEST(LeaseCases, Case1LostRepeatedAndReorderedMessages) {
  LeaseLedger ledger(TermsOf("10/s"), {4, 2, Mutation::kNone}, kFirst);
  Lease lease = LeaseOf(1);
  const Grant first = GrantOf(1, {1, 1}, kFirst, {9, 9});
  const Grant lost = GrantOf(1, {1, 2}, kFirst, {2, 2});
  const Grant last = GrantOf(1, {1, 3}, kFirst, {1, 1});
  for (const Grant& grant : {first, lost, last}) SendAndCheck(ledger, grant);
  ASSERT_TRUE(lease.Accept(first, InWindow(0)));
  const LimitReport early = lease.Report(4, 0, 0, false);
  ASSERT_TRUE(lease.Accept(last, InWindow(0)));
  EXPECT_FALSE(lease.Accept(first, InWindow(0)));
  EXPECT_FALSE(lease.Accept(last, InWindow(0)));
  const LimitReport late = lease.Report(4, 0, 0, false);
  for (const LimitReport& report : {late, early, late, early}) ASSERT_TRUE(ledger.Hear(1, report, std::nullopt));
  EXPECT_EQ(Exposure(ledger, 1, kFirst), 4);
  EXPECT_EQ(Exposure(ledger, 1, kFirst + 1), 1);
}

TEST(LeaseCases, Case2AGrantArrivesAfterItsLabels) {
  Lease lease = LeaseOf(1);
  ASSERT_TRUE(lease.Accept(GrantOf(1, {1, 1}, kFirst, {5, 5}), InWindow(9)));
  EXPECT_EQ(lease.CapAt(kFirst + 9), (Lease::Cap{0, Lease::Source::kNothing}));
  EXPECT_EQ(lease.Report(0, 0, 0, true).committed, 0);
}

TEST(LeaseCases, Case3TheRunningLabelIsCutBelowWhatIsUsed) {
  Lease lease = LeaseOf(1);
  ASSERT_TRUE(lease.Accept(GrantOf(1, {1, 1}, kFirst, {8, 8}), InWindow(0)));
  ASSERT_TRUE(lease.Accept(GrantOf(1, {1, 2}, kFirst, {3, 3}), InWindow(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 3);
  EXPECT_EQ(lease.Report(6, 0, 0, false).committed, 6);
}

TEST(LeaseCases, Case4TheAckerIsAheadOrBehind) {
  for (const Label label : {kFirst - 1, kFirst, kFirst + 1}) {
    LeaseLedger ledger(TermsOf("10/s"), {4, 2, Mutation::kNone}, kFirst);
    SendAndCheck(ledger, GrantOf(1, {1, 1}, kFirst, {9, 9, 9}));
    SendAndCheck(ledger, GrantOf(1, {1, 2}, kFirst, {1, 1, 1}));
    LimitReport report;
    report.held = {1, 2};
    report.label = label;
    report.committed = 1;
    ASSERT_TRUE(ledger.Hear(1, report, std::nullopt));
    for (Label w = kFirst; w < kFirst + 3; ++w) EXPECT_EQ(Exposure(ledger, 1, w), w < label ? 9 : 1) << label - kFirst;
  }
}

TEST(LeaseCases, Case5OwnersRaceAndAFencedOneGoesOnWriting) {
  CalmFleet fleet(3, TermsOf("9/s"));
  for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).backlog = 10'000;
  fleet.Windows(4);
  // Two start at once and claim the same log; a third dies between its EPOCH and reading it back.
  fleet.StartCoordinator();
  fleet.StartCoordinator();
  fleet.StartCoordinator();
  fleet.KillCoordinator(3);
  fleet.StartCoordinator();
  fleet.Windows(10);
  int leading = 0;
  for (const std::size_t j : {0U, 1U, 2U, 4U})
    leading += fleet.coordinator(j).phase() == Coordinator::Phase::kLeading ? 1 : 0;
  EXPECT_EQ(leading, 1);
  ExpectFullUse(fleet, kFirst + 1, kFirst + 13, 9);
}

TEST(LeaseCases, Case5AFencedOwnerThatDoesNotReadGoesOnGranting) {
  CalmFleet fleet(3, TermsOf("9/s"), 4);
  fleet.worker(0).backlog = 10'000;
  fleet.Windows(4);
  fleet.BlindCoordinator(0);
  fleet.StartCoordinator();
  fleet.Windows(2);
  const std::size_t before = fleet.Grants().size();
  // Both see demand move and grow what the other one has shrunk; that of the first is void, whatever its ledger allows.
  fleet.worker(0).backlog = 0;
  fleet.worker(2).backlog = 10'000;
  fleet.Windows(10);
  EXPECT_EQ(fleet.coordinator(0).phase(), Coordinator::Phase::kLeading);
  ASSERT_EQ(fleet.coordinator(1).phase(), Coordinator::Phase::kLeading);
  int fenced = 0;
  const auto grants = fleet.Grants();
  for (std::size_t i = before; i < grants.size(); ++i) {
    fenced += grants[i].id.epoch == fleet.coordinator(0).epoch() ? 1 : 0;
  }
  EXPECT_GE(fenced, 10);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(fleet.worker(i).lease->held().epoch, fleet.coordinator(1).epoch());
  }
  for (Label w = kFirst + 9; w < kFirst + 16; ++w) EXPECT_EQ(fleet.worker(2).spent[w], 7);  // idle ones keep one each
  EXPECT_EQ(fleet.Above(), std::nullopt);
}

TEST(LeaseCases, Case6ASuccessorKnowsTheTailOfTheLogAndNoAcks) {
  CalmFleet fleet(2, TermsOf("30/s"), 5);
  fleet.worker(0).backlog = 100'000;
  fleet.Windows(20);  // far more than a lease and four windows
  fleet.KillCoordinator(0);
  fleet.Windows(1);
  fleet.StartCoordinator();
  fleet.worker(1).backlog = 100'000;
  fleet.Windows(8);
  for (Label w = kFirst + 2; w < kFirst + 28; ++w) EXPECT_GE(fleet.Spent(w), 29);  // an idle worker keeps one
  ExpectFullUse(fleet, kFirst + 24, kFirst + 28, 30);
  EXPECT_GT(fleet.worker(1).spent[kFirst + 26], 10);
}

TEST(LeaseCases, Case7ACrashAndARestartInsideOneWindow) {
  CalmFleet fleet(2, TermsOf("10/s"), 4);
  fleet.worker(0).backlog = fleet.worker(1).backlog = 100'000;
  fleet.Windows(4);
  for (int i = 0; i < 5; ++i) fleet.Step();
  fleet.Restart(0);
  EXPECT_EQ(fleet.worker(0).lease->CapAt(fleet.label()).permits, 0);
  fleet.Windows(12);
  EXPECT_EQ(fleet.Above(), std::nullopt);
  ExpectFullUse(fleet, kFirst + 10, kFirst + 15, 10);
}

TEST(LeaseCases, Case8JoinsBelowOnePermitEachAtFullSaturationAndAHundredAtOnce) {
  CalmFleet fleet(4, TermsOf("8/s"));
  for (std::size_t i = 0; i < 4; ++i) fleet.worker(i).backlog = 1'000'000;
  fleet.Windows(5);
  for (int i = 0; i < 100; ++i) fleet.Join().backlog = 1'000'000;
  fleet.Windows(30);
  EXPECT_EQ(fleet.Above(), std::nullopt);
  ExpectFullUse(fleet, kFirst + 7, kFirst + 34, 8);
  for (std::size_t i = 4; i < 104; ++i) {
    std::int64_t served = 0;
    for (const auto& [w, permits] : fleet.worker(i).spent) served += permits;
    EXPECT_GT(served, 0) << i;
  }
}

TEST(LeaseCases, Case9TheTotalIsLoweredToNothingRaisedAndToldInTheWrongOrder) {
  CalmFleet fleet(3, TermsOf("30/s"));
  for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).backlog = 1'000'000;
  fleet.Windows(4);
  fleet.SetTerms(TermsOf("3/s", 2));
  fleet.Windows(3);
  for (Label w = kFirst + 4; w < kFirst + 7; ++w) EXPECT_EQ(fleet.Spent(w), 3);
  fleet.SetTerms(TermsOf("0", 3));
  fleet.Windows(2);
  for (Label w = kFirst + 7; w < kFirst + 9; ++w) EXPECT_EQ(fleet.Spent(w), 0);
  fleet.SetTerms(TermsOf("12/s", 5));
  fleet.SetTerms(TermsOf("1/s", 4));  // late
  fleet.Windows(4);
  for (Label w = kFirst + 9; w < kFirst + 13; ++w) EXPECT_EQ(fleet.Spent(w), 12);
}

TEST(LeaseCases, Case10RatesOfLessThanAWorkerLessThanAWindowAndOfMany) {
  for (const char* rate : {"1/s", "0.2/s", "1000/h", "2.5/s", "999999/h", "1999999999.999999/s"}) {
    CalmFleet fleet(5, TermsOf(rate));
    for (std::size_t i = 0; i < 5; ++i) fleet.worker(i).backlog = 1'000'000'000'000;
    fleet.Windows(20);
    EXPECT_EQ(fleet.Above(), std::nullopt) << rate;
    for (Label w = kFirst + 2; w < kFirst + 20; ++w) EXPECT_EQ(fleet.Spent(w), Rate(rate).Total(w)) << rate;
  }
}

TEST(LeaseCases, Case11TheReserveNeverTakesTheLastPermit) {
  for (int total = 1; total <= 45; ++total) {
    LeaseLedger ledger(TermsOf(std::to_string(total) + "/s"), {4, 2, Mutation::kNone}, kFirst);
    LimitReport report;
    report.label = kFirst;
    ASSERT_TRUE(ledger.Hear(1, report, std::nullopt));
    const std::vector<Wish> wishes{{&ledger.holders().at(1), total}};
    const auto shares = PlanShares(ledger, wishes, kFirst, kFirst + 4)[0];
    EXPECT_EQ(shares[0], total);
    EXPECT_EQ(shares[1], total);
    EXPECT_EQ(shares[3], total - (total >= 20 ? total / 20 : 0));
    EXPECT_GT(shares[3], 0);
  }
}

TEST(LeaseCases, Case12NobodyIsThereEverybodyIsSilentAndBack) {
  CalmFleet fleet(0, TermsOf("10/s"), 4);
  fleet.Windows(3);
  for (int i = 0; i < 3; ++i) fleet.Join().backlog = 1'000'000;
  fleet.Windows(4);
  ExpectFullUse(fleet, kFirst + 4, kFirst + 7, 10);
  for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).reports = false;
  fleet.Windows(12);
  EXPECT_EQ(fleet.Spent(kFirst + 18), 0);  // their leases have run out, and nobody knows whether they live
  for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).reports = true;
  fleet.Windows(4);
  ExpectFullUse(fleet, kFirst + 20, kFirst + 23, 10);
}

TEST(LeaseCases, Case13ClocksAreOffByMillisecondsAWindowAndAnHour) {
  for (const Nanoseconds off :
       {Nanoseconds(milliseconds(-3)), Nanoseconds(milliseconds(3)), Nanoseconds(kWindow), -Nanoseconds(kWindow),
        Nanoseconds(std::chrono::hours(1)), -Nanoseconds(std::chrono::hours(1))}) {
    CalmFleet fleet(2, TermsOf("10/s"));
    fleet.worker(0).backlog = fleet.worker(1).backlog = 1'000'000;
    fleet.Windows(3);
    fleet.worker(1).clock = off;
    fleet.Windows(30);
    EXPECT_EQ(fleet.Above(), std::nullopt) << off.count();
    // Whoever is an hour off is alone with it: when its lease has run out the other has everything.
    if (off > seconds(10) || off < -seconds(10)) {
      EXPECT_EQ(fleet.worker(0).spent[kFirst + 30], 10) << off.count();
    }
  }
}

// One smears a leap second over twenty windows, the other one steps back by it in the middle.
TEST(LeaseCases, Case13ALeapSecondIsSmearedHereAndSteppedThere) {
  for (const Nanoseconds leap : {Nanoseconds(seconds(1)), -Nanoseconds(seconds(1))}) {
    CalmFleet fleet(3, TermsOf("12/s"));
    for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).backlog = 1'000'000;
    fleet.Windows(4);
    constexpr int kSteps = 20 * CalmFleet::kSteps;
    for (int step = 1; step <= kSteps; ++step) {
      fleet.worker(0).clock = -leap * step / kSteps;
      if (step == kSteps / 2) fleet.worker(1).clock = -leap;
      fleet.Step();
    }
    fleet.Windows(6);
    EXPECT_EQ(fleet.Above(), std::nullopt);
    // Each counts in the windows of its own clock: none is used twice, and but for the one that is left out all are
    // full.
    int less = 0;
    for (Label w = kFirst + 2; w < kFirst + 28; ++w) less += fleet.Spent(w) < 12 ? 1 : 0;
    EXPECT_LE(less, 2);
  }
}

TEST(LeaseCases, Case13TheCoordinatorsClockGoesBackAndSmears) {
  Coordinator coordinator({100, 4});
  coordinator.SetTerms(kLimit, TermsOf("10/s"), InWindow(5));
  coordinator.OnLog(coordinator.Claim(InWindow(5)), InWindow(5));
  EXPECT_TRUE(coordinator.Plan(InWindow(3)).empty());
  EXPECT_EQ(coordinator.label(), kFirst + 5);
  EXPECT_TRUE(coordinator.Plan(InWindow(5) + milliseconds(999)).empty());
  EXPECT_FALSE(coordinator.Plan(InWindow(6)).empty());
  EXPECT_TRUE(coordinator.Plan(InWindow(6) - milliseconds(1)).empty());
  // A second smeared over forty windows: it claims each label once.
  std::size_t claims = 0;
  for (int step = 1; step <= 400; ++step)
    claims += coordinator.Plan(InWindow(6) + step * milliseconds(100) * 39 / 40).size();
  EXPECT_EQ(claims, 39U);
}

TEST(LeaseCases, Case14AWorkerStopsBetweenPermitAndSend) {
  // A permit is of its label: right before the request is written the label is looked at again, and where another one
  // runs, a permit of that one is needed. Beyond the lease there is none.
  Lease lease = LeaseOf(1);
  ASSERT_TRUE(lease.Accept(GrantOf(1, {1, 1}, kFirst, {8, 8}), InWindow(0)));
  ASSERT_GT(lease.CapAt(lease.Advance(InWindow(0))).permits, 0);
  EXPECT_EQ(lease.CapAt(lease.Advance(InWindow(7))).permits, 0);

  CalmFleet fleet(2, TermsOf("10/s"), 4);
  fleet.worker(0).backlog = fleet.worker(1).backlog = 1'000'000;
  fleet.Windows(3);
  auto stopped = std::move(fleet.worker(0).lease);
  fleet.Windows(9);
  EXPECT_EQ(fleet.Spent(kFirst + 11), 10);  // the other one has all of it by now
  fleet.worker(0).lease = std::move(stopped);
  fleet.Windows(5);
  EXPECT_EQ(fleet.Above(), std::nullopt);
  EXPECT_EQ(fleet.worker(0).spent[kFirst + 15], 5);
}

TEST(LeaseCases, Case15TheLeaseEndsExactlyWhenASuccessorTakesOver) {
  for (const int late : {2, 3, 4, 5, 6}) {
    CalmFleet fleet(2, TermsOf("10/s"), 4);
    fleet.worker(0).backlog = fleet.worker(1).backlog = 1'000'000;
    fleet.Windows(5);
    fleet.KillCoordinator(0);
    fleet.Windows(late);
    fleet.StartCoordinator();
    fleet.Windows(6);
    // The last leases cover four windows, the running one with them.
    for (Label w = kFirst + 1; w < kFirst + 8; ++w) EXPECT_EQ(fleet.Spent(w), 10) << late << " " << w - kFirst;
    ExpectFullUse(fleet, kFirst + 5 + late + 3, kFirst + 5 + late + 6, 10);
  }
}

TEST(LeaseCases, Case16ASlotsShareAndALeaseAndTheNextProcessOfTheSlot) {
  CalmFleet fleet(2, TermsOf("10/s", 1, 2), 4);
  fleet.worker(0).backlog = 1'000'000;
  fleet.Windows(16);
  EXPECT_GE(fleet.Spent(kFirst + 15), 9);  // worker 1 is idle and keeps one
  fleet.KillCoordinator(0);
  fleet.Windows(10);
  EXPECT_EQ(fleet.worker(0).spent[kFirst + 24], 5);  // no lease any more: its slot
  fleet.Restart(0);
  fleet.worker(1).backlog = 1'000'000;
  fleet.Windows(3);
  EXPECT_EQ(fleet.worker(0).spent[kFirst + 28], 0);  // a lease of its predecessor could still run
  EXPECT_EQ(fleet.worker(1).spent[kFirst + 28], 5);
  fleet.Windows(8);
  ExpectFullUse(fleet, kFirst + 34, kFirst + 37, 10);
  fleet.StartCoordinator();
  fleet.Windows(16);
  ExpectFullUse(fleet, kFirst + 46, kFirst + 53, 10);
}

TEST(LeaseCases, Case17DemandsThatAreNoDemandsHurtNobody) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t demand : {most, least, std::int64_t{-1}}) {
    Coordinator coordinator({100, 4});
    for (const char* limit : {kLimit, "other"}) coordinator.SetTerms(limit, TermsOf("10/s"), InWindow(0));
    coordinator.OnLog(coordinator.Claim(InWindow(0)), InWindow(0));
    for (const Incarnation who : {1U, 2U}) {
      Report report{who, std::nullopt, {}};
      for (const char* limit : {kLimit, "other"}) {
        LimitReport of_limit;
        of_limit.limit = limit;
        of_limit.label = kFirst;
        of_limit.demand = who == 1 && limit == kLimit ? demand : 5;
        of_limit.used_before = who == 1 ? most : 0;
        report.limits.push_back(of_limit);
      }
      coordinator.OnReport(report, InWindow(0));
    }
    EXPECT_EQ(coordinator.Plan(InWindow(0)).size(), 4U);
    for (const char* limit : {kLimit, "other"}) {
      const auto view = coordinator.View(limit);
      ASSERT_EQ(view->members.size(), 2U);
      EXPECT_EQ(view->members[0].share + view->members[1].share, 10);
      EXPECT_EQ(view->members[1].share, std::string_view(limit) == kLimit && demand < 0 ? 7 : 5) << demand;
    }
  }
}

TEST(LeaseCases, Case18WhoeverHasSomethingIsServedWithinARound) {
  for (const int total : {1, 2, 3, 7}) {
    CalmFleet fleet(10, TermsOf(std::to_string(total) + "/s"));
    for (std::size_t i = 0; i < 10; ++i) fleet.worker(i).backlog = 1'000'000;
    fleet.Windows(40);
    const Label round = (10 + total - 1) / total;
    for (std::size_t i = 0; i < 10; ++i) {
      Label served = kFirst + 3;
      for (Label w = kFirst + 3; w < kFirst + 40; ++w) {
        if (fleet.worker(i).spent[w] == 0) continue;
        EXPECT_LE(w - served, round) << "worker " << i << " of total " << total;
        served = w;
      }
      EXPECT_LE(kFirst + 40 - served, round);
    }
    ExpectFullUse(fleet, kFirst + 2, kFirst + 40, total);
  }
}

TEST(LeaseCases, Case19SteadyDemandChangesNothingButTheEndOfTheLeases) {
  CalmFleet fleet(4, TermsOf("19/s"), 10);
  for (std::size_t i = 0; i < 4; ++i) fleet.worker(i).arrivals = 3;
  fleet.Windows(8);
  const auto before = fleet.Grants().size();
  fleet.Windows(20);
  const auto grants = fleet.Grants();
  EXPECT_EQ(grants.size() - before, 4U * 20);  // one for each worker and window
  std::map<std::pair<Incarnation, Label>, std::int64_t> granted;
  for (std::size_t i = before; i < grants.size(); ++i) {
    for (Label w = grants[i].first; w < grants[i].end(); ++w) {
      const auto [place, first] = granted.try_emplace({grants[i].to, w}, grants[i].ShareAt(w));
      EXPECT_TRUE(first || place->second == grants[i].ShareAt(w));
    }
  }
}

TEST(LeaseCases, Case20NoChangeIsTooSmallForWhoeverIsStarved) {
  CalmFleet fleet(2, TermsOf("1000/s"));
  fleet.worker(0).arrivals = 500;
  fleet.worker(1).arrivals = 500;
  fleet.Windows(6);
  fleet.worker(0).arrivals = 495;
  fleet.worker(1).arrivals = 505;
  fleet.Windows(12);
  EXPECT_EQ(fleet.worker(1).spent[kFirst + 17], 505);
  EXPECT_LT(fleet.worker(1).backlog, 100);
}

TEST(LeaseCases, Case21WorkersThatKnowNothingOfLeasesKeepTheirSlots) {
  CalmFleet fleet(2, TermsOf("12/s", 1, 3), 4);
  fleet.worker(0).backlog = fleet.worker(1).backlog = 1'000'000;
  const SlotShares old(TermsOf("12/s", 1, 3), 3, kFirst);
  fleet.Windows(20);
  for (Label w = kFirst + 12; w < kFirst + 20; ++w) EXPECT_EQ(fleet.Spent(w) + old.Least(2, w), 12) << w - kFirst;
}

}  // namespace
}  // namespace posthorn::ratelimit
