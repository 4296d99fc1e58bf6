#include "worker/admin/loop_pings.h"

#include <gtest/gtest.h>

#include "tests/support/manual_loop.h"

namespace posthorn::admin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Keeps what is posted until it is told to run it.
class StuckLoop final : public runtime::Loop {
 public:
  void Post(std::function<void()> work) override { posted.push_back(std::move(work)); }
  [[nodiscard]] std::unique_ptr<runtime::Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  [[nodiscard]] const runtime::Now& now() const override { return now_; }
  void Run() {
    for (const auto& work : std::exchange(posted, {})) work();
  }
  std::vector<std::function<void()>> posted;

 private:
  runtime::Now now_{};
};

struct LoopPingsTest : ::testing::Test {
  StuckLoop first, second;
  test::FakeClock clock;
  runtime::SteadyTime now() { return clock.Read().steady; }
  void Seconds(LoopPings& pings, int count) {
    for (int i = 0; i < count; ++i) {
      pings.Ping(now());
      clock.Advance(seconds(1));
    }
  }
};

TEST_F(LoopPingsTest, LoopsThatAnswerAreAlive) {
  LoopPings pings({&first, &second});
  for (int i = 0; i < 20; ++i) {
    pings.Ping(now());
    first.Run();
    second.Run();
    clock.Advance(seconds(1));
    EXPECT_TRUE(pings.StoppedLoops(now()).empty());
  }
}

TEST_F(LoopPingsTest, NamesTheLoopThatStandsStillAndForgivesItWhenItTurnsAgain) {
  LoopPings pings({&first, &second});
  for (int i = 0; i < 5; ++i) {
    pings.Ping(now());
    first.Run();
    EXPECT_TRUE(pings.StoppedLoops(now()).empty()) << i;
    clock.Advance(seconds(1));
  }
  const auto stopped = pings.StoppedLoops(now());
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].loop, 1U);
  EXPECT_EQ(stopped[0].silent, seconds(5));
  second.Run();
  EXPECT_TRUE(pings.StoppedLoops(now()).empty());
}

TEST_F(LoopPingsTest, AtMostOnePingWaitsInALoop) {
  LoopPings pings({&first});
  Seconds(pings, 10);
  EXPECT_EQ(first.posted.size(), 1U);
}

TEST_F(LoopPingsTest, AProcessThatWasStoppedGivesItsLoopsTimeAnew) {
  LoopPings pings({&first});
  pings.Ping(now());
  clock.Advance(seconds(20));
  pings.Ping(now());
  EXPECT_TRUE(pings.StoppedLoops(now()).empty());
  clock.Advance(seconds(1));
  Seconds(pings, 4);
  EXPECT_EQ(pings.StoppedLoops(now()).size(), 1U);
}

TEST_F(LoopPingsTest, ALateAnswerAfterTheEndTouchesNothing) {
  {
    LoopPings pings({&first});
    pings.Ping(now());
  }
  first.Run();
}

}  // namespace
}  // namespace posthorn::admin
