#include "ratelimit/leases/slot_shares.h"

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::kFirst;
using testing::TermsOf;

TEST(SlotSharesTest, SettledSlotsMakeExactlyTheTotal) {
  const SlotShares slots(TermsOf("7/s", 1, 3), 2, kFirst);
  for (Label w = kFirst + 2; w < kFirst + 40; ++w) {
    std::int64_t sum = 0;
    for (std::uint32_t k = 0; k < 3; ++k) {
      EXPECT_EQ(slots.Least(k, w), slots.Most(k, w));
      sum += slots.Least(k, w);
    }
    EXPECT_EQ(sum, 7);
  }
  EXPECT_EQ(slots.Most(3, kFirst + 2), 0);
}

TEST(SlotSharesTest, UntilSettledAWorkerUsesTheLeastAndTheLedgerCountsTheMost) {
  SlotShares slots(TermsOf("7/s", 1, 3), 2, kFirst);
  EXPECT_EQ(slots.Least(0, kFirst), 2);
  EXPECT_EQ(slots.Most(0, kFirst), 3);
  ASSERT_TRUE(slots.SetTerms(TermsOf("20/s", 2, 5), kFirst + 10));
  EXPECT_EQ(slots.Least(0, kFirst + 11), 2);
  EXPECT_EQ(slots.Most(0, kFirst + 11), 4);
  EXPECT_EQ(slots.Least(4, kFirst + 11), 0);
  EXPECT_EQ(slots.Most(4, kFirst + 11), 4);
  EXPECT_EQ(slots.Least(4, kFirst + 12), 4);
}

TEST(SlotSharesTest, ARetiredSlotCountsUntilEverybodyKnows) {
  SlotShares slots(TermsOf("8/s", 1, 4), 2, kFirst);
  ASSERT_TRUE(slots.SetTerms(TermsOf("8/s", 2, 2), kFirst + 10));
  EXPECT_EQ(slots.slots(), 4U);
  EXPECT_EQ(slots.Most(3, kFirst + 11), 2);
  EXPECT_EQ(slots.Least(3, kFirst + 11), 0);
  EXPECT_EQ(slots.Most(3, kFirst + 12), 0);
}

TEST(SlotSharesTest, AnOlderRevisionIsIgnoredAndASameOneWithAHigherNumberSettlesNothingAnew) {
  SlotShares slots(TermsOf("8/s", 5, 4), 2, kFirst);
  EXPECT_FALSE(slots.SetTerms(TermsOf("1/s", 4, 4), kFirst + 10));
  EXPECT_TRUE(slots.SetTerms(TermsOf("8/s", 6, 4), kFirst + 10));
  EXPECT_EQ(slots.Least(0, kFirst + 10), 2);
  EXPECT_EQ(slots.Most(0, kFirst + 10), 2);
}

}  // namespace
}  // namespace posthorn::ratelimit
