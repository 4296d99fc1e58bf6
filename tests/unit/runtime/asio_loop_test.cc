#include "worker/runtime/asio_loop.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <vector>

namespace posthorn::runtime {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class AsioLoopTest : public ::testing::Test {
 protected:
  /// Runs `work` on the loop and waits for it.
  template <typename Work>
  void OnLoop(Work work) {
    std::promise<void> done;
    loop.Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  AsioLoop loop{SystemClock(), "test-loop"};
};

TEST_F(AsioLoopTest, RunsWhatWasPostedInOrderAlsoFromBeforeTheStart) {
  std::vector<int> seen;
  for (int i = 0; i < 50; ++i) loop.Post([&, i] { seen.push_back(i); });
  loop.Start();
  for (int i = 50; i < 100; ++i) loop.Post([&, i] { seen.push_back(i); });
  OnLoop([] {});
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST_F(AsioLoopTest, TheTimeStandsDuringAWakeUpAndIsReadForEach) {
  loop.Start();
  Now first{}, again{}, later{};
  OnLoop([&] {
    first = loop.now();
    while (SystemClock().Read().steady == first.steady) {
    }
    again = loop.now();
  });
  OnLoop([&] { later = loop.now(); });
  EXPECT_EQ(first.steady, again.steady);
  EXPECT_GT(later.steady, first.steady);
}

TEST_F(AsioLoopTest, ATimerFiresOnceAndNotBeforeItsTime) {
  loop.Start();
  std::unique_ptr<Timer> timer;
  std::promise<Now> fired;
  SteadyTime at{};
  OnLoop([&] {
    timer = loop.MakeTimer([&] { fired.set_value(loop.now()); });  // a second time would throw
    at = loop.now().steady + milliseconds(5);
    timer->Arm(at);
  });
  EXPECT_GE(fired.get_future().get().steady, at);
  OnLoop([&] { timer.reset(); });
}

TEST_F(AsioLoopTest, RearmingReplacesTheEarlierTime) {
  loop.Start();
  std::unique_ptr<Timer> timer;
  int fired = 0;
  std::promise<void> last;
  OnLoop([&] {
    timer = loop.MakeTimer([&] {
      ++fired;
      last.set_value();
    });
    timer->Arm(loop.now().steady + hours(1));
    timer->Arm(loop.now().steady);
  });
  last.get_future().wait();
  OnLoop([&] { timer.reset(); });
  EXPECT_EQ(fired, 1);
}

TEST_F(AsioLoopTest, ATimerThatWasReplacedOrCancelledAfterItExpiredDoesNotFire) {
  loop.Start();
  std::unique_ptr<Timer> cancelled, replaced, destroyed;
  int fired = 0;
  OnLoop([&] {
    const auto past = loop.now().steady - milliseconds(1);
    cancelled = loop.MakeTimer([&] { ++fired; });
    replaced = loop.MakeTimer([&] { ++fired; });
    destroyed = loop.MakeTimer([&] { ++fired; });
    for (auto* timer : {&cancelled, &replaced, &destroyed}) (*timer)->Arm(past);
    cancelled->Cancel();
    replaced->Arm(past + hours(1));
    destroyed.reset();
  });
  for (int i = 0; i < 10; ++i) OnLoop([] {});
  EXPECT_EQ(fired, 0);
  OnLoop([&] { cancelled.reset(), replaced.reset(); });
}

TEST_F(AsioLoopTest, ATimerMayArmAndDestroyItselfWhileItFires) {
  loop.Start();
  std::unique_ptr<Timer> timer;
  int fired = 0;
  std::promise<void> last;
  OnLoop([&] {
    timer = loop.MakeTimer([&] {
      if (++fired < 3) {
        timer->Arm(loop.now().steady);
      } else {
        timer.reset();
        last.set_value();
      }
    });
    timer->Arm(loop.now().steady);
  });
  last.get_future().wait();
  EXPECT_EQ(fired, 3);
}

TEST_F(AsioLoopTest, StopDropsWhatIsStillPostedAndMayBeRepeated) {
  loop.Start();
  const auto held = std::make_shared<int>(0);
  OnLoop([] {});
  loop.Stop();
  loop.Post([held] { ++*held; });
  loop.Stop();
  EXPECT_EQ(*held, 0);
}

}  // namespace
}  // namespace posthorn::runtime
