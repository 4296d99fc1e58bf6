#include "worker/fleet/clock_offset.h"

#include <gtest/gtest.h>

namespace posthorn::fleet {
namespace {

using runtime::WallTime;
using std::chrono::milliseconds;

WallTime Ms(std::int64_t ms) { return WallTime(milliseconds(1'793'000'000'000 + ms)); }

TEST(ClockOffsetTest, NothingIsKnownBeforeAnythingWasMeasured) {
  const ClockOffset clock;
  EXPECT_FALSE(clock.Estimate());
  EXPECT_FALSE(clock.Beyond(milliseconds(0)));
}

TEST(ClockOffsetTest, LiesBetweenSentAndKnown) {
  ClockOffset clock;
  clock.Add(0, Ms(1000), Ms(900), Ms(1004));  // ahead by 100 ms, 4 ms under way
  const auto bounds = clock.Estimate().value();
  EXPECT_LE(bounds.least, milliseconds(100));
  EXPECT_GE(bounds.most, milliseconds(100));
  EXPECT_LE(bounds.most - bounds.least, milliseconds(5));
  EXPECT_FALSE(clock.Beyond(milliseconds(100)));
  EXPECT_TRUE(clock.Beyond(milliseconds(98)));
}

TEST(ClockOffsetTest, ASlowAnswerProvesNothing) {
  ClockOffset clock;
  clock.Add(0, Ms(0), Ms(800), Ms(900));  // stored late, on a right clock
  EXPECT_FALSE(clock.Beyond(milliseconds(100)));
  clock.Add(0, Ms(1000), Ms(1002), Ms(1003));
  EXPECT_LE(clock.Estimate()->most, milliseconds(1));
}

TEST(ClockOffsetTest, AClockThatWasSetIsSeenAtOnce) {
  ClockOffset clock;
  for (int i = 0; i < 20; ++i) clock.Add(0, Ms(1000 * i), Ms(1000 * i), Ms(1000 * i + 1));
  EXPECT_FALSE(clock.Beyond(milliseconds(100)));
  clock.Add(0, Ms(30'000), Ms(29'000), Ms(30'020));
  EXPECT_TRUE(clock.Beyond(milliseconds(100)));
  clock.Add(0, Ms(31'000), Ms(31'000), Ms(31'050));
  EXPECT_FALSE(clock.Beyond(milliseconds(100))) << "set back";
}

TEST(ClockOffsetTest, AClockThatIsSetWhileARecordIsUnderWayProvesNothing) {
  ClockOffset clock;
  clock.Add(0, Ms(1000), Ms(1000), Ms(1001));
  clock.Add(0, Ms(2000), Ms(2001), Ms(5002));
  EXPECT_FALSE(clock.Beyond(milliseconds(100)));
}

TEST(ClockOffsetTest, OneBrokerOfThreeWithABadClockChangesNothing) {
  ClockOffset clock;
  clock.Add(0, Ms(1000), Ms(1000), Ms(1001));
  clock.Add(1, Ms(1000), Ms(5000), Ms(1001));
  clock.Add(2, Ms(1000), Ms(1001), Ms(1002));
  EXPECT_FALSE(clock.Beyond(milliseconds(100)));
}

}  // namespace
}  // namespace posthorn::fleet
