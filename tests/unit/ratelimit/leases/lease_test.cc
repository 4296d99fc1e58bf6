#include "ratelimit/leases/lease.h"

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::GrantOf;
using testing::kFirst;
using testing::kLimit;
using testing::TermsOf;
using Source = Lease::Source;
using Cap = Lease::Cap;

class LeaseTest : public ::testing::Test {
 protected:
  static WallTime In(Label windows) { return StartOf(kFirst + windows); }
  Lease lease{kLimit, {7, std::nullopt, kFirst}, TermsOf("10/s"), In(0)};
};

TEST_F(LeaseTest, HoldsNothingBeforeItsFirstGrant) {
  EXPECT_EQ(lease.CapAt(kFirst), (Cap{0, Source::kNothing}));
  EXPECT_EQ(lease.CoveredUntil(), std::nullopt);
}

TEST_F(LeaseTest, HasTheSharesOfTheNewestGrantAlone) {
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 1}, kFirst, {4, 4, 4}), In(0)));
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 2}, kFirst + 1, {2}), In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 0);
  EXPECT_EQ(lease.CapAt(kFirst + 1), (Cap{2, Source::kLease}));
  EXPECT_EQ(lease.CapAt(kFirst + 2), (Cap{0, Source::kNothing}));
  EXPECT_EQ(lease.CoveredUntil(), kFirst + 2);
}

TEST_F(LeaseTest, TakesNoGrantThatIsOfOthersOrOlderOrMalformed) {
  ASSERT_TRUE(lease.Accept(GrantOf(7, {2, 5}, kFirst, {4}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(8, {2, 6}, kFirst, {9}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(7, {2, 5}, kFirst, {9}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(7, {1, 9}, kFirst, {9}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(7, {2, 7}, kFirst, {}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(7, {2, 8}, kFirst, {3, -1}), In(0)));
  EXPECT_FALSE(lease.Accept(GrantOf(7, {2, 9}, kFirst, std::vector<std::int64_t>(11, 1)), In(0)));
  Grant other = GrantOf(7, {2, 10}, kFirst, {9});
  other.limit = "another";
  EXPECT_FALSE(lease.Accept(other, In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 4);
}

TEST_F(LeaseTest, TakesNoGrantThatBeginsFurtherAheadThanClocksDiffer) {
  EXPECT_FALSE(lease.Accept(GrantOf(7, {1, 1}, kFirst + 2, {4}), In(0)));
  EXPECT_TRUE(lease.Accept(GrantOf(7, {1, 1}, kFirst + 1, {4}), In(0)));
}

TEST_F(LeaseTest, LoweredTermsCutTheSharesAtOnceAndHigherOnesDoNothing) {
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 1}, kFirst, {5, 5}), In(0)));
  ASSERT_TRUE(lease.SetTerms(TermsOf("3/s", 2), In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 1);
  ASSERT_TRUE(lease.SetTerms(TermsOf("50/s", 3), In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 5);
  ASSERT_TRUE(lease.SetTerms(TermsOf("0", 4), In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 0);
  EXPECT_FALSE(lease.SetTerms(TermsOf("50/s", 3), In(0)));
  // Planned for newer terms than this worker knows: they are the coordinator's business.
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 2}, kFirst, {6}, TermsOf("20/s", 5)), In(0)));
  EXPECT_EQ(lease.CapAt(kFirst).permits, 6);
}

TEST_F(LeaseTest, ReportsWhatItHasUsedOrMayStillUse) {
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 1}, kFirst, {5, 5}), In(0)));
  EXPECT_EQ(lease.Report(2, 0, 9, false).committed, 5);
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 2}, kFirst, {1, 1}), In(0)));
  const LimitReport report = lease.Report(3, 8, 9, true);
  EXPECT_EQ(report.committed, 3);
  EXPECT_EQ(report.held, (GrantId{1, 2}));
  EXPECT_EQ(report.label, kFirst);
  EXPECT_EQ(report.demand, 9);
  EXPECT_EQ(report.used_before, 8);
  EXPECT_TRUE(report.starved);
}

TEST_F(LeaseTest, LeavingEndsEveryShareAndSaysSo) {
  ASSERT_TRUE(lease.Accept(GrantOf(7, {1, 1}, kFirst, {5, 5}), In(0)));
  lease.Leave();
  EXPECT_EQ(lease.CapAt(kFirst).permits, 0);
  const LimitReport report = lease.Report(2, 0, 9, false);
  EXPECT_TRUE(report.leaving);
  EXPECT_EQ(report.committed, 2);
  EXPECT_EQ(report.demand, 0);
}

TEST_F(LeaseTest, TheLabelNeverGoesBack) {
  EXPECT_EQ(lease.Advance(In(3)), kFirst + 3);
  EXPECT_EQ(lease.Advance(In(1)), kFirst + 3);
  EXPECT_EQ(lease.Report(0, 0, 0, false).label, kFirst + 3);
}

TEST_F(LeaseTest, ASlotIsUsedWhenNoLeaseOfAnyProcessInItCanRunAnyMore) {
  const Lease::Process process{9, 1, kFirst, 4, 1, 2};
  Lease in_slot(kLimit, process, TermsOf("10/s", 1, 2), In(0));
  EXPECT_EQ(in_slot.CapAt(kFirst + 5).source, Source::kNothing);
  EXPECT_EQ(in_slot.CapAt(kFirst + 6), (Cap{5, Source::kFallback}));
  ASSERT_TRUE(in_slot.Accept(GrantOf(9, {1, 1}, kFirst, {0, 0, 0, 8}), In(0)));
  EXPECT_EQ(in_slot.CapAt(kFirst + 3), (Cap{8, Source::kLease}));
  ASSERT_TRUE(in_slot.Accept(GrantOf(9, {1, 2}, kFirst + 5, {0, 0, 0, 0}), In(4)));
  EXPECT_EQ(in_slot.CapAt(kFirst + 8), (Cap{0, Source::kLease}));
  EXPECT_EQ(in_slot.CapAt(kFirst + 9), (Cap{5, Source::kFallback}));
}

}  // namespace
}  // namespace posthorn::ratelimit
