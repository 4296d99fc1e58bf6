// Many threads on one Limiter, across windows and changes of the plan. Run under the thread sanitizer too.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Rate;
using testing::seconds;
using testing::SlotPlan;

constexpr int kThreads = 4;
constexpr int kWindows = 200;

// Permits per label as one thread counted them.
using Taken = std::array<std::int64_t, kWindows + 2>;

// Time that passes by being read: every reading is a little later than the one before, whoever reads. What a thread
// holds in its hand is therefore often older than what others have acted on already.
class SharedTime {
 public:
  explicit SharedTime(Nanoseconds step) : step_(step) {}
  WallTime Read() { return At(Nanoseconds(passed_.fetch_add(step_.count(), std::memory_order_relaxed))); }
  [[nodiscard]] bool Over() const { return passed_.load(std::memory_order_relaxed) >= (kWindow * kWindows).count(); }

 private:
  Nanoseconds step_;
  std::atomic<std::int64_t> passed_{0};
};

template <typename Body>
std::vector<Taken> Hammer(Body&& body) {
  std::vector<Taken> taken(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    taken[static_cast<std::size_t>(i)].fill(0);
    threads.emplace_back([&, i] { body(taken[static_cast<std::size_t>(i)]); });
  }
  for (auto& thread : threads) thread.join();
  return taken;
}

std::int64_t Sum(const std::vector<Taken>& taken, Label w) {
  std::int64_t sum = 0;
  for (const auto& one : taken) sum += one[static_cast<std::size_t>(w - kFirst)];
  return sum;
}

void Count(Taken& taken, Label w) { ++taken.at(static_cast<std::size_t>(w - kFirst)); }

TEST(Threads, TogetherTakeExactlyTheCapOfEveryWindow) {
  for (const Burst burst : {Burst::kAtOnce, Burst::kSmooth}) {
    Limiter limiter(SlotPlan(Rate("50/s"), 0, 1, burst), {}, At(seconds(-5)));
    SharedTime time(milliseconds(1));
    const auto taken = Hammer([&](Taken& mine) {
      while (!time.Over()) {
        const auto decision = limiter.Acquire(time.Read(), Nanoseconds(0));
        if (const auto* admitted = std::get_if<Admitted>(&decision)) Count(mine, admitted->label);
      }
    });
    for (Label w = kFirst; w < kFirst + kWindows - 1; ++w) {
      ASSERT_EQ(Sum(taken, w), 50) << w - kFirst;
    }
    EXPECT_EQ(limiter.UsedIn(kFirst + kWindows - 1), Sum(taken, kFirst + kWindows - 1));
  }
}

TEST(Threads, ChangesOfThePlanKeepEveryWindowWithinItsCaps) {
  Limiter limiter(SlotPlan(Rate("40/s"), 0, 1), {}, At(seconds(-5)));
  SharedTime time(std::chrono::microseconds(300));
  std::atomic<bool> over{false};
  std::thread control([&] {
    for (int i = 0; !over; ++i) {
      limiter.SetPlan(SlotPlan(Rate(i % 3 == 0   ? "40/s"
                                    : i % 3 == 1 ? "3/s"
                                                 : "17/s"),
                               0, 1, i % 2 == 0 ? Burst::kSmooth : Burst::kAtOnce),
                      time.Read());
      (void)limiter.PartialLimit(time.Read());
      std::this_thread::yield();
    }
  });
  const auto taken = Hammer([&](Taken& mine) {
    while (!time.Over()) {
      const WallTime now = time.Read();
      const auto decision = limiter.Acquire(now, Nanoseconds(0));
      if (const auto* admitted = std::get_if<Admitted>(&decision)) Count(mine, admitted->label);
      if (const auto renewed = limiter.Renew(now, LabelAt(now) - 1); renewed && *renewed >= LabelAt(now))
        Count(mine, *renewed);
    }
  });
  over = true;
  control.join();
  for (Label w = kFirst; w < kFirst + kWindows; ++w) ASSERT_LE(Sum(taken, w), 40) << w - kFirst;
}

// SetPlan's own promise: when it returns, nothing is admitted by the older plan any more. `turn` is even while
// deliveries are stopped for certain and odd while they may be on.
TEST(Threads, NothingIsAdmittedAfterAStopHasReturned) {
  Limiter limiter(SlotPlan(Rate("0"), 0, 1), {}, At(seconds(-5)));
  SharedTime time(std::chrono::microseconds(100));
  std::atomic<std::int64_t> turn{0};
  std::atomic<bool> over{false};
  std::atomic<std::int64_t> admitted_while_stopped{0};
  std::thread control([&] {
    while (!over) {
      turn.fetch_add(1);
      limiter.SetPlan(SlotPlan(Rate("1000000/s"), 0, 1), time.Read());
      limiter.SetPlan(SlotPlan(Rate("0"), 0, 1), time.Read());
      turn.fetch_add(1);
      std::this_thread::yield();
    }
  });
  const auto taken = Hammer([&](Taken& mine) {
    for (int i = 0; i < 50'000; ++i) {
      const auto before = turn.load();
      const auto decision = limiter.Acquire(time.Read(), Nanoseconds(0));
      const auto* admitted = std::get_if<Admitted>(&decision);
      if (admitted == nullptr) continue;
      Count(mine, admitted->label);
      if (before % 2 == 0 && turn.load() == before) ++admitted_while_stopped;
    }
  });
  over = true;
  control.join();
  EXPECT_EQ(admitted_while_stopped, 0);
}

}  // namespace
}  // namespace posthorn::ratelimit
