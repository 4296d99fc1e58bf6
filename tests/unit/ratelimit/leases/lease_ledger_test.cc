#include "ratelimit/leases/lease_ledger.h"

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::GrantOf;
using testing::kFirst;
using testing::TermsOf;

constexpr Incarnation kOne = 1;
constexpr Incarnation kTwo = 2;

class LeaseLedgerTest : public ::testing::Test {
 protected:
  LimitReport Ack(GrantId held, Label label, std::int64_t committed) {
    LimitReport report;
    report.held = held;
    report.label = label;
    report.committed = committed;
    return report;
  }
  bool SendIfAllowed(const Grant& grant) {
    if (!ledger.MaySend(grant)) return false;
    ledger.Send(grant);
    return true;
  }
  std::int64_t ExposureOf(Incarnation who, Label w) {
    const auto found = ledger.holders().find(who);
    return found == ledger.holders().end() ? 0 : ledger.Exposure(found->second, w);
  }
  LeaseLedger ledger{TermsOf("10/s"), {4, 2, Mutation::kNone}, kFirst};
};

TEST_F(LeaseLedgerTest, NoGrantLeavesThatCouldMakeMoreThanTheTotal) {
  EXPECT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {6, 10})));
  EXPECT_FALSE(SendIfAllowed(GrantOf(kTwo, {1, 2}, kFirst, {5, 0})));
  EXPECT_FALSE(SendIfAllowed(GrantOf(kTwo, {1, 2}, kFirst, {4, 1})));
  EXPECT_TRUE(SendIfAllowed(GrantOf(kTwo, {1, 2}, kFirst, {4, 0})));
  EXPECT_EQ(ledger.TotalExposure(kFirst), 10);
}

TEST_F(LeaseLedgerTest, WhatWasTakenAwayIsFreeOnlyWhenTheWorkerSaysSo) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {10, 10, 10})));
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 2}, kFirst, {2, 2, 2})));
  EXPECT_EQ(ExposureOf(kOne, kFirst + 1), 10);
  EXPECT_FALSE(SendIfAllowed(GrantOf(kTwo, {1, 3}, kFirst, {1, 1, 1})));
  ASSERT_TRUE(ledger.Hear(kOne, Ack({1, 2}, kFirst, 7), std::nullopt));
  EXPECT_EQ(ExposureOf(kOne, kFirst), 7);  // used before it heard
  EXPECT_EQ(ExposureOf(kOne, kFirst + 1), 2);
  EXPECT_TRUE(SendIfAllowed(GrantOf(kTwo, {1, 4}, kFirst, {3, 8, 8})));
}

TEST_F(LeaseLedgerTest, AnAckSaysNothingOfTheLabelsBeforeTheAckersOwn) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {10, 10, 10})));
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 2}, kFirst, {0, 0, 0})));
  ASSERT_TRUE(ledger.Hear(kOne, Ack({1, 2}, kFirst + 2, 0), std::nullopt));
  EXPECT_EQ(ExposureOf(kOne, kFirst), 10);
  EXPECT_EQ(ExposureOf(kOne, kFirst + 1), 10);
  EXPECT_EQ(ExposureOf(kOne, kFirst + 2), 0);
}

TEST_F(LeaseLedgerTest, AfterAReplayNothingRisesToWhatAWorkerIsCountedFor) {
  ledger.Replay(GrantOf(kOne, {1, 1}, kFirst, {10, 10}), true);
  ledger.Replay(GrantOf(kOne, {1, 2}, kFirst, {3, 3}), true);
  ledger.Replay(GrantOf(kTwo, {1, 3}, kFirst, {7, 7}), true);
  EXPECT_EQ(ledger.TotalExposure(kFirst), 17);
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {2, 1}, kFirst, {4, 3})));
  EXPECT_TRUE(ledger.MaySend(GrantOf(kOne, {2, 1}, kFirst, {3, 3})));
}

TEST_F(LeaseLedgerTest, AGrantThatMayBeVoidCountsButEntitlesToNothing) {
  ledger.Replay(GrantOf(kOne, {1, 1}, kFirst, {8}), false);
  ledger.Replay(GrantOf(kTwo, {2, 1}, kFirst, {9}), true);
  EXPECT_EQ(ExposureOf(kOne, kFirst), 8);
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {3, 1}, kFirst, {1})));
  EXPECT_TRUE(ledger.MaySend(GrantOf(kOne, {3, 1}, kFirst, {0})));
}

TEST_F(LeaseLedgerTest, ALoweredTotalLetsGrantsOnlyShrink) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {5, 5})));
  ASSERT_TRUE(SendIfAllowed(GrantOf(kTwo, {1, 2}, kFirst, {5, 5})));
  ASSERT_TRUE(ledger.SetTerms(TermsOf("4/s", 2), kFirst));
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {1, 3}, kFirst, {6, 5})));
  EXPECT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 3}, kFirst, {2, 2})));
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {1, 4}, kFirst, {3, 2})));
  EXPECT_FALSE(ledger.SetTerms(TermsOf("40/s", 1), kFirst));
  EXPECT_EQ(ledger.Total(kFirst), 4);
}

TEST_F(LeaseLedgerTest, WhoLeavesKeepsOnlyWhatItHasUsed) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {8, 8, 8})));
  LimitReport leaving = Ack({1, 1}, kFirst + 1, 3);
  leaving.leaving = true;
  ASSERT_TRUE(ledger.Hear(kOne, leaving, std::nullopt));
  EXPECT_EQ(ExposureOf(kOne, kFirst), 8);
  EXPECT_EQ(ExposureOf(kOne, kFirst + 1), 3);
  EXPECT_EQ(ExposureOf(kOne, kFirst + 2), 0);
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {1, 2}, kFirst, {1})));
}

TEST_F(LeaseLedgerTest, ASilentWorkerCountsUntilItsLastLabelHasPassedAndThenIsForgotten) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {8, 8, 8})));
  ledger.ForgetBefore(kFirst + 2);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 2), 8);
  ledger.ForgetBefore(kFirst + 3);
  EXPECT_TRUE(ledger.holders().empty());
  EXPECT_FALSE(ledger.MaySend(GrantOf(kTwo, {1, 2}, kFirst + 2, {1})));
}

TEST_F(LeaseLedgerTest, ReportsThatMakeNoSenseAreLeftOut) {
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 1}, kFirst, {8, 8})));
  ASSERT_TRUE(SendIfAllowed(GrantOf(kOne, {1, 2}, kFirst, {8, 2})));
  EXPECT_FALSE(ledger.Hear(kOne, Ack({1, 3}, kFirst, 0), std::nullopt));
  EXPECT_FALSE(ledger.Hear(kOne, Ack({1, 2}, kFirst + 4'000, 0), std::nullopt));
  EXPECT_FALSE(ledger.Hear(kOne, Ack({1, 2}, kFirst - 4'000, 0), std::nullopt));
  EXPECT_FALSE(ledger.Hear(kOne, Ack({1, 2}, kFirst, -1), std::nullopt));
  EXPECT_EQ(ExposureOf(kOne, kFirst + 1), 8);
  // More than it can be committed to takes nothing from the others.
  EXPECT_TRUE(ledger.Hear(kOne, Ack({1, 2}, kFirst, 1'000'000), std::nullopt));
  EXPECT_EQ(ledger.TotalExposure(kFirst), 8);
}

class SlotLedgerTest : public ::testing::Test {
 protected:
  void Hear(Incarnation from, GrantId held, Label label, std::int64_t committed) {
    LimitReport report;
    report.held = held;
    report.label = label;
    report.committed = committed;
    ASSERT_TRUE(ledger.Hear(from, report, SlotClaim{0, kFirst + 1, kFirst + 6}));
  }
  static constexpr Label kSettled = kFirst + 2;
  LeaseLedger ledger{TermsOf("10/s", 1, 2), {4, 2, Mutation::kNone}, kFirst};
};

TEST_F(SlotLedgerTest, SlotsCountBeforeAnybodyHasReported) {
  EXPECT_EQ(ledger.TotalExposure(kSettled), 10);
  EXPECT_FALSE(ledger.MaySend(GrantOf(kOne, {1, 1}, kSettled, {1})));
}

TEST_F(SlotLedgerTest, AClaimedSlotCountsFromWhenItsProcessMayFallBack) {
  Hear(kOne, {}, kFirst, 0);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 5), 5);   // the other slot
  EXPECT_EQ(ledger.TotalExposure(kFirst + 6), 10);  // and this one, which holds no lease
}

TEST_F(SlotLedgerTest, ALeaseTakesThePlaceOfTheSlotWhereItIsKnownToBeHeld) {
  Hear(kOne, {}, kFirst, 0);
  ledger.ForgetBefore(kFirst + 4);
  const Grant grant = GrantOf(kOne, {1, 1}, kFirst + 4, {2, 2, 2, 2});
  ASSERT_TRUE(ledger.MaySend(grant));
  ledger.Send(grant);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 6), 10);  // it may not have arrived
  Hear(kOne, {1, 1}, kFirst + 4, 2);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 6), 7);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 8), 10);  // after its end
}

TEST_F(SlotLedgerTest, ASuccessorInTheSlotTakesOverTheFallbackFromItsFirstLabelOn) {
  Hear(kOne, {}, kFirst, 0);
  LimitReport report;
  report.label = kFirst + 10;
  ledger.ForgetBefore(kFirst + 10);
  ASSERT_TRUE(ledger.Hear(kTwo, report, SlotClaim{0, kFirst + 12, kFirst + 16}));
  EXPECT_TRUE(ledger.holders().at(kOne).superseded());
  EXPECT_EQ(ledger.TotalExposure(kFirst + 11), 10);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 12), 5);
  EXPECT_EQ(ledger.TotalExposure(kFirst + 16), 10);
}

}  // namespace
}  // namespace posthorn::ratelimit
