// Random histories of fleets whose workers are slot k of N: restarts, joins, live changes of rate and N that the
// workers learn of at different times, clocks that differ, callers that are late.

#include <gtest/gtest.h>

#include "fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::Book;
using testing::milliseconds;
using testing::Outcome;
using testing::Process;
using testing::Random;
using testing::seconds;

struct Fleet {
  Timing rules;                   // what the limiters go by
  std::optional<Timing> joining;  // what a process that starts later goes by, if other than `rules`
  bool restarts = true;
  bool rate_changes = true;
  bool instance_changes = true;
};

struct Revision {
  Nanoseconds published;
  MaxRate rate;
  std::uint32_t instances;
  Burst burst;
};

// The world as it is; a mutant's rules differ from it, the world does not.
constexpr Timing kWorld{};
constexpr std::uint32_t kSlots = 6;
constexpr seconds kLength(12);

std::optional<std::string> History(Random& random, const Fleet& fleet) {
  std::vector<Revision> revisions;
  Revision revision{seconds(-30), random.Of(testing::SomeRates()), static_cast<std::uint32_t>(random.In(1, kSlots)),
                    random.OneIn(4) ? Burst::kSmooth : Burst::kAtOnce};
  revisions.push_back(revision);
  for (Nanoseconds t = random.In(Nanoseconds(0), Nanoseconds(seconds(3))); t < kLength;
       t += random.In(milliseconds(50), random.OneIn(2) ? Nanoseconds(milliseconds(900)) : Nanoseconds(seconds(5)))) {
    revision.published = t;
    if (fleet.rate_changes) revision.rate = random.Of(testing::SomeRates());
    if (fleet.instance_changes && random.OneIn(2))
      revision.instances = static_cast<std::uint32_t>(random.In(1, kSlots));
    if (random.OneIn(5)) revision.burst = random.OneIn(2) ? Burst::kSmooth : Burst::kAtOnce;
    revisions.push_back(revision);
  }

  struct Worker {
    std::unique_ptr<Process> process;
    Nanoseconds offset{};
    Nanoseconds skew{};  // of learning
    std::size_t known = 0;
    Nanoseconds late{};
  };
  Book book;
  std::vector<Worker> workers(kSlots);
  const auto plan = [&](std::uint32_t slot, std::size_t known) {
    return testing::SlotPlan(revisions[known].rate, slot, revisions[known].instances, revisions[known].burst);
  };
  const auto start = [&](std::uint32_t slot, Nanoseconds now) {
    auto& worker = workers[slot];
    const Nanoseconds half = kWorld.max_clock_offset / 2 - Nanoseconds(1);
    worker.offset = random.In(-half, half);
    worker.skew = random.In(Nanoseconds(0), kWorld.settle - kWorld.max_clock_offset);
    worker.late = random.OneIn(3) ? random.In(Nanoseconds(0), Nanoseconds(milliseconds(30))) : Nanoseconds(0);
    worker.known = 0;
    while (worker.known + 1 < revisions.size() && revisions[worker.known + 1].published + worker.skew <= now)
      ++worker.known;
    const bool joins = now > seconds(-30);
    worker.process = std::make_unique<Process>(
        book, plan(slot, worker.known), joins && fleet.joining ? *fleet.joining : fleet.rules, worker.offset, now);
  };
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!fleet.restarts || !random.OneIn(4)) start(slot, seconds(-30));
  }

  // The instants of the world, most of them close to the ends of windows.
  for (Nanoseconds now = Nanoseconds(0); now < kLength;) {
    now +=
        random.OneIn(3) ? random.In(milliseconds(1), milliseconds(150)) : random.In(milliseconds(1), milliseconds(20));
    const auto slot = static_cast<std::uint32_t>(random.In(0, kSlots - 1));
    if (fleet.restarts && random.OneIn(60)) {
      if (workers[slot].process && random.OneIn(3)) {
        workers[slot].process.reset();
      } else {
        start(slot, now);
      }
    }
    for (std::uint32_t k = 0; k < kSlots; ++k) {
      auto& worker = workers[k];
      if (!worker.process) continue;
      while (worker.known + 1 < revisions.size() && revisions[worker.known + 1].published + worker.skew <= now) {
        // Learned at its own time: nothing is taken between then and now.
        ++worker.known;
        worker.process->Learn(plan(k, worker.known), revisions[worker.known].published + worker.skew);
      }
      if (k == slot || random.OneIn(2)) worker.process->Take(now, random.In(1, 40), worker.late);
      if (random.OneIn(40)) worker.process->Renew(now);
    }
  }
  return book.Violation();
}

Outcome Histories(std::uint64_t seed, int count, const Fleet& fleet) {
  return testing::RunHistories(seed, count, [&](Random& random) { return History(random, fleet); });
}

TEST(SlotHistories, NeverAboveTheTotal) {
  const Outcome outcome = Histories(1'000'000, testing::kMany, {});
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
}

TEST(SlotHistories, NeverAboveTheTotalWithAWiderSettleTime) {
  Fleet fleet;
  fleet.rules.settle = milliseconds(2500);
  const Outcome outcome = Histories(2'000'000, 1'000, fleet);
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
}

// Each rule is taken away by its own parameter; the same histories must notice.

TEST(SlotHistories, NoticeWhenANewProcessStartsInTheRunningWindow) {
  Fleet fleet;
  fleet.rate_changes = fleet.instance_changes = false;
  ASSERT_EQ(Histories(3'000'000, 500, fleet).broken, 0);
  fleet.joining = Timing{.max_clock_offset = -kWindow, .settle = -kWindow};
  EXPECT_GT(Histories(3'000'000, 500, fleet).broken, 0);
}

TEST(SlotHistories, NoticeWhenANewProcessStartsInTheNextWindowByItsOwnClock) {
  Fleet fleet;
  fleet.rate_changes = fleet.instance_changes = false;
  fleet.joining = Timing{.max_clock_offset = Nanoseconds(0), .settle = Nanoseconds(0)};
  EXPECT_GT(Histories(3'000'000, 2'000, fleet).broken, 0);
}

TEST(SlotHistories, NoticeWhenANewProcessDoesNotWaitUntilTheOthersKnowTheNewN) {
  Fleet fleet;
  fleet.rate_changes = false;
  ASSERT_EQ(Histories(4'000'000, 500, fleet).broken, 0);
  fleet.joining = Timing{.settle = kWorld.max_clock_offset};
  EXPECT_GT(Histories(4'000'000, 500, fleet).broken, 0);
}

TEST(SlotHistories, NoticeWhenANewRateIsGoneByAtOnce) {
  Fleet fleet;
  fleet.restarts = fleet.instance_changes = false;
  ASSERT_EQ(Histories(5'000'000, 500, fleet).broken, 0);
  fleet.rules.settle = -kWindow;
  EXPECT_GT(Histories(5'000'000, 500, fleet).broken, 0);
}

TEST(SlotHistories, NoticeWhenANewNIsGoneByFromTheNextWindowOn) {
  Fleet fleet;
  fleet.restarts = fleet.rate_changes = false;
  ASSERT_EQ(Histories(6'000'000, 500, fleet).broken, 0);
  fleet.rules.settle = Nanoseconds(0);
  EXPECT_GT(Histories(6'000'000, 500, fleet).broken, 0);
}

}  // namespace
}  // namespace posthorn::ratelimit
