#include "ratelimit/window_counter.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Random;
using testing::seconds;
using Answer = WindowCounter::Answer;
using Pace = WindowCounter::Pace;

Window AtOnce(Label label, std::int64_t cap) {
  Window window;
  window.label = label;
  window.cap = cap;
  window.smooth = false;
  return window;
}

void Open(WindowCounter& counter, const Window& window) {
  counter.Change([&](const Window&, std::int64_t) { return window; });
}

Answer Take(WindowCounter& counter, WallTime now) { return counter.Take(now, Pace::kEnvelope).answer; }

TEST(WindowCounter, CountsUpToItsCap) {
  WindowCounter counter;
  Open(counter, AtOnce(kFirst, 2));
  EXPECT_EQ(Take(counter, At(milliseconds(1))), Answer::kTaken);
  EXPECT_EQ(Take(counter, At(milliseconds(2))), Answer::kTaken);
  EXPECT_EQ(Take(counter, At(milliseconds(3))), Answer::kUsedUp);
  EXPECT_EQ(counter.used(), 2);
}

TEST(WindowCounter, ZeroAdmitsNothing) {
  WindowCounter counter;
  Open(counter, AtOnce(kFirst, 0));
  EXPECT_EQ(Take(counter, At(milliseconds(0))), Answer::kUsedUp);
  EXPECT_EQ(counter.Take(At(milliseconds(0)), Pace::kCapOnly).answer, Answer::kUsedUp);
}

TEST(WindowCounter, ALateNowCountsIntoTheRunningWindow) {
  WindowCounter counter;
  Open(counter, AtOnce(kFirst, 3));
  for (const auto late : {milliseconds(-1), milliseconds(-1000), milliseconds(-3'600'000)}) {
    const auto result = counter.Take(At(late), Pace::kEnvelope);
    EXPECT_EQ(result.answer, Answer::kTaken);
    EXPECT_EQ(result.label, kFirst);
  }
  EXPECT_EQ(Take(counter, At(milliseconds(-500))), Answer::kUsedUp);
}

TEST(WindowCounter, AsksForTheNextWindow) {
  WindowCounter counter;
  Open(counter, AtOnce(kFirst, 1));
  EXPECT_EQ(Take(counter, At(seconds(1))), Answer::kNewWindow);
  Open(counter, AtOnce(kFirst + 1, 1));
  EXPECT_EQ(Take(counter, At(seconds(1))), Answer::kTaken);
}

TEST(WindowCounter, AChangedCapKeepsTheCountOfItsWindow) {
  WindowCounter counter;
  Open(counter, AtOnce(kFirst, 5));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Take(counter, At(milliseconds(i))), Answer::kTaken);
  Open(counter, AtOnce(kFirst, 3));
  EXPECT_EQ(Take(counter, At(milliseconds(5))), Answer::kUsedUp);
  EXPECT_EQ(counter.used(), 4);
  Open(counter, AtOnce(kFirst, 6));
  EXPECT_EQ(Take(counter, At(milliseconds(6))), Answer::kTaken);
  EXPECT_EQ(Take(counter, At(milliseconds(7))), Answer::kTaken);
  EXPECT_EQ(Take(counter, At(milliseconds(8))), Answer::kUsedUp);
}

TEST(WindowCounter, TheTailIsOneTailAlsoWhenTheCapChangesWithinIt) {
  WindowCounter counter;
  Window window;
  window.label = kFirst;
  window.cap = 1000;
  Open(counter, window);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(Take(counter, At(milliseconds(985))), Answer::kTaken);
  window.cap = 900;
  Open(counter, window);
  int taken = 0;
  while (Take(counter, At(milliseconds(990))) == Answer::kTaken) ++taken;
  EXPECT_EQ(taken, 1 + 18 - 15);
}

TEST(WindowCounter, NeverReopensALabelWhateverTheClockDoes) {
  Random random(31);
  for (int history = 0; history < 2'000; ++history) {
    WindowCounter counter;
    Open(counter, AtOnce(kFirst, 3));
    std::vector<std::int64_t> used(12, 0);
    for (int step = 0; step < 60; ++step) {
      const WallTime now = At(random.In(seconds(-3), seconds(11)));
      auto result = counter.Take(now, Pace::kEnvelope);
      if (result.answer == Answer::kNewWindow) {
        Open(counter, AtOnce(LabelAt(now), 3));
        result = counter.Take(now, Pace::kEnvelope);
      }
      if (result.answer == Answer::kTaken) ++used.at(static_cast<std::size_t>(result.label - kFirst));
    }
    for (const auto count : used) ASSERT_LE(count, 3) << "seed 31, history " << history;
  }
}

}  // namespace
}  // namespace posthorn::ratelimit
