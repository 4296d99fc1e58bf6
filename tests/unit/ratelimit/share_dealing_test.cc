#include "ratelimit/share_dealing.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::kFirst;
using testing::Random;
using testing::Rate;
using testing::SomeRates;

// The dealing written down once more, permit by permit.
std::int64_t DealtOneByOne(const MaxRate& rate, Label w, const Hand& hand) {
  std::int64_t share = 0;
  for (Wide c = rate.CumulativeAt(w); c < rate.CumulativeAt(w + 1); ++c) {
    const Wide slot = c - FloorDiv(c, hand.slots()) * hand.slots();
    for (const auto k : hand.held()) share += k == slot;
  }
  return share;
}

TEST(Hand, HoldsWhatIsDealtToIt) {
  Random random(11);
  for (int i = 0; i < 20'000; ++i) {
    const MaxRate rate = random.Of(SomeRates());
    const auto slots = static_cast<std::uint32_t>(random.In(1, 40));
    std::vector<std::uint32_t> held;
    for (auto n = random.In(0, 12); n > 0; --n) held.push_back(static_cast<std::uint32_t>(random.In(0, 45)));
    const Hand hand(slots, held);
    const Label w = random.In(-100, 100) + (random.OneIn(2) ? kFirst : 0);
    ASSERT_EQ(hand.Share(rate, w), DealtOneByOne(rate, w, hand)) << "seed 11, case " << i;
    ASSERT_LE(hand.EvenShare(rate, w), hand.Share(rate, w));
  }
}

TEST(Hand, AllSlotsTogetherHoldExactlyTheTotal) {
  Random random(12);
  for (int i = 0; i < 10'000; ++i) {
    const MaxRate rate =
        random.OneIn(3) ? Rate(std::to_string(random.In(0, 7'200'000'000'000)) + "/h") : random.Of(SomeRates());
    const auto slots = static_cast<std::uint32_t>(random.In(1, 96));
    const Label w = random.In(-4'000'000'000, 4'000'000'000);
    std::int64_t sum = 0;
    for (std::uint32_t k = 0; k < slots; ++k) sum += Hand(slots, {k}).Share(rate, w);
    ASSERT_EQ(sum, rate.Total(w)) << "seed 12, case " << i;
  }
}

TEST(Hand, NinetySixInstancesShareTenAndTwoMillionASecond) {
  for (const auto* text : {"10/s", "2000000/s"}) {
    const MaxRate rate = Rate(text);
    std::vector<std::int64_t> got(96, 0);
    for (Label w = kFirst; w < kFirst + 48; ++w) {
      std::int64_t sum = 0;
      for (std::uint32_t k = 0; k < 96; ++k) {
        const auto share = Hand(96, {k}).Share(rate, w);
        got[k] += share;
        sum += share;
      }
      ASSERT_EQ(sum, rate.Total(w));
    }
    for (const auto sum : got) EXPECT_EQ(sum, rate.Total(kFirst) * 48 / 96) << text;
  }
}

TEST(Hand, FindsItsNextLabel) {
  Random random(13);
  for (int i = 0; i < 5'000; ++i) {
    const MaxRate rate = random.Of(SomeRates());
    const auto slots = static_cast<std::uint32_t>(random.In(1, 12));
    std::vector<std::uint32_t> held;
    for (auto n = random.In(0, 3); n > 0; --n) held.push_back(static_cast<std::uint32_t>(random.In(0, 13)));
    const Hand hand(slots, held);
    const Label from = random.In(-200, 200);
    const auto next = hand.NextLabel(rate, from);
    if (rate.IsZero() || hand.held().empty()) {
      EXPECT_FALSE(next);
      continue;
    }
    ASSERT_TRUE(next);
    for (Label w = from; w < *next; ++w) ASSERT_EQ(hand.Share(rate, w), 0) << "seed 13, case " << i;
    ASSERT_GT(hand.Share(rate, *next), 0) << "seed 13, case " << i;
  }
}

TEST(Hand, NextLabelOfAHundredHoursAwayIsFoundAtOnce) {
  const auto next = Hand(96, {95}).NextLabel(Rate("1/h"), kFirst);
  ASSERT_TRUE(next);
  EXPECT_EQ(Hand(96, {95}).Share(Rate("1/h"), *next), 1);
  EXPECT_LT(*next - kFirst, 96 * 3600 + 1);
}

TEST(Hand, SlotsBeyondTheTableHaveNoShare) {
  EXPECT_EQ(Hand(3, {3}).Share(Rate("100/s"), kFirst), 0);
  EXPECT_EQ(Hand(0, {0}).Share(Rate("100/s"), kFirst), 0);
  EXPECT_EQ(Hand().Share(Rate("100/s"), kFirst), 0);
}

}  // namespace
}  // namespace posthorn::ratelimit
