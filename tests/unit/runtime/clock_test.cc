#include "worker/runtime/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "worker/runtime/disciplined_clock.h"

namespace posthorn::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

WallTime Wall(Nanoseconds t) { return WallTime(std::chrono::hours(500'000) + t); }
SteadyTime Steady(Nanoseconds t) { return SteadyTime(std::chrono::hours(1) + t); }

TEST(DisciplinedClockTest, FollowsAClockThatRunsOn) {
  DisciplinedClock clock;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(clock.Adjust(Wall(seconds(i)), Steady(seconds(i))), Wall(seconds(i)));
}

TEST(DisciplinedClockTest, AForwardStepIsFollowedAtOnce) {
  DisciplinedClock clock;
  EXPECT_EQ(clock.Adjust(Wall(seconds(0)), Steady(seconds(0))), Wall(seconds(0)));
  EXPECT_EQ(clock.Adjust(Wall(seconds(100)), Steady(seconds(1))), Wall(seconds(100)));
}

TEST(DisciplinedClockTest, AfterABackwardStepItGoesOnAtHalfSpeedUntilTheClockHasCaughtUp) {
  DisciplinedClock clock;
  EXPECT_EQ(clock.Adjust(Wall(seconds(10)), Steady(seconds(10))), Wall(seconds(10)));
  // Ten seconds back.
  EXPECT_EQ(clock.Adjust(Wall(seconds(1)), Steady(seconds(11))), Wall(seconds(10)));
  EXPECT_EQ(clock.Adjust(Wall(seconds(3)), Steady(seconds(13))), Wall(seconds(11)));
  EXPECT_EQ(clock.Adjust(Wall(seconds(5)), Steady(seconds(15))), Wall(seconds(12)));
  EXPECT_EQ(clock.Adjust(Wall(seconds(11)), Steady(seconds(21))), Wall(seconds(15)));
  EXPECT_EQ(clock.Adjust(Wall(seconds(16)), Steady(seconds(26))), Wall(seconds(16))) << "ahead of what was given out";
  EXPECT_EQ(clock.Adjust(Wall(seconds(17)), Steady(seconds(27))), Wall(seconds(17)));
}

TEST(DisciplinedClockTest, ASecondStepBackWhileBehind) {
  DisciplinedClock clock;
  auto last = clock.Adjust(Wall(seconds(100)), Steady(seconds(0)));
  for (int i = 1; i < 200; ++i) {
    const auto raw = Wall(seconds(i < 50 ? 90 + i / 2 : 20 + i));
    const auto given = clock.Adjust(raw, Steady(seconds(i)));
    EXPECT_GE(given, last);
    EXPECT_LE(given - last, seconds(2));
    last = given;
  }
  EXPECT_EQ(last, Wall(seconds(219)));
}

TEST(DisciplinedClockTest, OverlappingReadingsDoNotSlowItDown) {
  DisciplinedClock clock;
  EXPECT_EQ(clock.Adjust(Wall(milliseconds(1'000)), Steady(milliseconds(1'000))), Wall(milliseconds(1'000)));
  EXPECT_EQ(clock.Adjust(Wall(std::chrono::microseconds(999'900)), Steady(std::chrono::microseconds(999'900))),
            Wall(milliseconds(1'000)));
  EXPECT_EQ(clock.Adjust(Wall(milliseconds(1'001)), Steady(milliseconds(1'001))), Wall(milliseconds(1'001)));
}

TEST(DisciplinedClockTest, NeverBackwardsForAnyThread) {
  DisciplinedClock clock;
  std::atomic<std::int64_t> tick{0};
  std::vector<std::thread> threads;
  std::atomic<int> faults{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      WallTime last{};
      for (int i = 0; i < 20'000; ++i) {
        const auto n = tick.fetch_add(1);
        const Nanoseconds at = std::chrono::microseconds(n * 50);
        const auto back = n > 30'000 ? seconds(1) : seconds(0);
        const auto given = clock.Adjust(Wall(at - back), Steady(at));
        if (given < last) ++faults;
        last = given;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(faults, 0);
}

TEST(SystemClockTest, ReadsBothClocks) {
  const auto a = SystemClock().Read();
  const auto b = SystemClock().Read();
  EXPECT_LE(a.wall, b.wall);
  EXPECT_LE(a.steady, b.steady);
  EXPECT_GT(a.wall, WallTime(std::chrono::hours(24 * 365 * 50)));
}

}  // namespace
}  // namespace posthorn::runtime
