// Changes of rate and N told beforehand, for one label: fleets that have learned of them in time change in that very
// window, at full use; and random histories in which they are told late, called off and replaced as well.

#include <gtest/gtest.h>

#include "fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::Book;
using testing::kFirst;
using testing::milliseconds;
using testing::Outcome;
using testing::Process;
using testing::Random;
using testing::Rate;
using testing::seconds;

constexpr Timing kWorld{};
constexpr std::uint32_t kSlots = 6;

Nanoseconds SomeOffset(Random& random) {
  const Nanoseconds half = kWorld.max_clock_offset / 2 - Nanoseconds(1);
  return random.In(-half, half);
}

struct Deal {
  MaxRate rate;
  std::uint32_t instances = 1;
};

Plan PlanOf(const Deal& deal, std::uint32_t slot) { return testing::SlotPlan(deal.rate, slot, deal.instances); }

Plan PlanOf(const Deal& now, const Deal& then, Label from, std::uint32_t slot) {
  Plan plan = PlanOf(now, slot);
  plan.next = Plan::Next{from, then.rate, Burst::kAtOnce, SlotDealing{slot, then.instances}};
  return plan;
}

Deal SomeDeal(Random& random) {
  return {random.Of(testing::SomeRates()), static_cast<std::uint32_t>(random.In(1, kSlots))};
}

// Every worker has always something to send and learns of the change at least `settle` ahead: each label is used in
// full, by the old total before the label and by the new one from it on.
std::optional<std::string> Saturated(Random& random) {
  const Deal before = SomeDeal(random);
  const Deal after = SomeDeal(random);
  const Label from = kFirst + 6;
  Book book;
  std::vector<std::unique_ptr<Process>> workers;
  std::vector<Nanoseconds> learns;
  std::vector<Nanoseconds> confirms;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const Nanoseconds offset = SomeOffset(random);
    workers.push_back(std::make_unique<Process>(book, PlanOf(before, slot), kWorld, offset, seconds(-5)));
    // In time by every clock.
    learns.push_back(random.In(Nanoseconds(seconds(1)), Nanoseconds(milliseconds(4940))));
    // The revision is put in force some time after the label has begun, by the worker's own clock.
    confirms.push_back(seconds(6) - offset + random.In(Nanoseconds(0), Nanoseconds(milliseconds(900))));
  }
  std::vector<int> known(kSlots, 0);
  for (Nanoseconds now = Nanoseconds(0); now < seconds(10); now += milliseconds(5)) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if (known[slot] == 0 && now >= learns[slot]) {
        workers[slot]->Learn(PlanOf(before, after, from, slot), now);
        known[slot] = 1;
      }
      if (known[slot] == 1 && now >= confirms[slot]) {
        workers[slot]->Learn(PlanOf(after, slot), now);
        known[slot] = 2;
      }
      workers[slot]->Take(now, 2'000);
    }
  }
  for (Label w = kFirst + 1; w < kFirst + 9; ++w) {
    const std::int64_t total = (w < from ? before : after).rate.Total(w);
    if (book.Used(w) == total) continue;
    return "label " + std::to_string(w - from) + ": " + std::to_string(book.Used(w)) + " of " + std::to_string(total);
  }
  return std::nullopt;
}

TEST(ScheduledHistories, ASaturatedFleetChangesInThatVeryWindow) {
  const Outcome outcome = testing::RunHistories(7'000'000, 400, &Saturated);
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
}

struct Revision {
  Nanoseconds published;
  Deal deal;
  std::optional<Label> from;  // unset: at once
};

// What a worker knows: the newest revision, and what is in force until that is.
struct Knowledge {
  Deal now;
  std::optional<Revision> next;

  void Learn(const Revision& revision) {
    if (revision.from) {
      next = revision;
    } else {
      next.reset();
      now = revision.deal;
    }
  }
  [[nodiscard]] Plan PlanFor(std::uint32_t slot) const {
    return next ? PlanOf(now, next->deal, *next->from, slot) : PlanOf(now, slot);
  }
};

// With any notice, also none: in every label at most the highest total that somebody went by in it.
std::optional<std::string> AnyNotice(Random& random) {
  constexpr seconds kLength(12);
  std::vector<Revision> revisions{{seconds(-30), SomeDeal(random), std::nullopt}};
  for (Nanoseconds t = random.In(Nanoseconds(0), Nanoseconds(seconds(2))); t < kLength;
       t += random.In(milliseconds(50), random.OneIn(2) ? Nanoseconds(milliseconds(900)) : Nanoseconds(seconds(4)))) {
    Revision revision{t, SomeDeal(random), std::nullopt};
    if (!random.OneIn(4)) revision.from = LabelAt(At(t)) + random.In(1, 5);
    revisions.push_back(revision);
  }
  struct Worker {
    std::unique_ptr<Process> process;
    Nanoseconds offset{};
    Nanoseconds skew{};
    Nanoseconds lag{};  // of putting in force what was scheduled
    std::size_t learned = 0;
    Knowledge knowledge;
  };
  Book book;
  std::vector<Worker> workers(kSlots);
  const auto start = [&](std::uint32_t slot, Nanoseconds now) {
    auto& worker = workers[slot];
    worker.offset = SomeOffset(random);
    worker.skew = random.In(Nanoseconds(0), kWorld.settle - kWorld.max_clock_offset);
    worker.lag = random.In(Nanoseconds(0), Nanoseconds(milliseconds(50)));
    // It reads the newest revision alone. One that is to come has no share here until it is in force.
    worker.learned = 1;
    while (worker.learned < revisions.size() && revisions[worker.learned].published + worker.skew <= now) {
      ++worker.learned;
    }
    const Revision& newest = revisions[worker.learned - 1];
    worker.knowledge = {newest.deal, std::nullopt};
    if (newest.from && *newest.from > LabelAt(At(now + worker.offset))) {
      worker.process.reset();
      return;
    }
    worker.process = std::make_unique<Process>(book, worker.knowledge.PlanFor(slot), kWorld, worker.offset, now);
  };
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) start(slot, seconds(-30));
  for (Nanoseconds now = Nanoseconds(0); now < kLength;) {
    now +=
        random.OneIn(3) ? random.In(milliseconds(1), milliseconds(150)) : random.In(milliseconds(1), milliseconds(20));
    const auto one = static_cast<std::uint32_t>(random.In(0, kSlots - 1));
    if (random.OneIn(80)) start(one, now);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      auto& worker = workers[slot];
      if (!worker.process) continue;
      const auto put_in_force = [&](Nanoseconds at) {
        auto& next = worker.knowledge.next;
        const auto due = next ? StartOf(*next->from) - At(Nanoseconds(0)) - worker.offset + worker.lag : now;
        if (!next || due > at) return;
        worker.knowledge = {next->deal, std::nullopt};
        worker.process->Learn(worker.knowledge.PlanFor(slot), due);
      };
      while (worker.learned < revisions.size() && revisions[worker.learned].published + worker.skew <= now) {
        const Revision& revision = revisions[worker.learned++];
        const Nanoseconds at = revision.published + worker.skew;
        put_in_force(at);
        Revision seen = revision;
        if (seen.from && *seen.from <= LabelAt(At(at + worker.offset))) seen.from.reset();  // past: at once
        worker.knowledge.Learn(seen);
        worker.process->Learn(worker.knowledge.PlanFor(slot), at);
      }
      put_in_force(now);
      if (slot == one || random.OneIn(2)) worker.process->Take(now, random.In(1, 40));
      if (random.OneIn(40)) worker.process->Renew(now);
    }
  }
  return book.Violation();
}

TEST(ScheduledHistories, NeverAboveTheTotalWhateverTheNotice) {
  const Outcome outcome = testing::RunHistories(8'000'000, testing::kMany / 2, &AnyNotice);
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
}

// Cases a history shows only now and then.

TEST(ScheduledTest, WhoWaitsIsToldTheWindowOfTheChange) {
  Limiter stopped(PlanOf({Rate("0"), 1}, {Rate("5/s"), 1}, kFirst + 4, 0), {}, At(seconds(-5)));
  EXPECT_EQ(stopped.Acquire(At(seconds(0)), seconds(10)), Decision(TryAgainAt{At(seconds(4))}));
  Limiter rare(PlanOf({Rate("1/h"), 1}, {Rate("5/s"), 1}, kFirst + 4, 0), {}, At(seconds(-5)));
  EXPECT_EQ(rare.Acquire(At(seconds(0)), seconds(10)), Decision(TryAgainAt{At(seconds(4))}));
  Limiter ending(PlanOf({Rate("5/s"), 1}, {Rate("0"), 1}, kFirst + 4, 0), {}, At(seconds(-5)));
  EXPECT_EQ(testing::TakeAll(ending, At(seconds(3))), 5);
  EXPECT_EQ(ending.Acquire(At(seconds(3)), seconds(10)), Decision(WontOpen{}));
  EXPECT_EQ(testing::TakeAll(ending, At(seconds(4))), 0);
}

TEST(ScheduledTest, LearnedTooLateForOthersItKeepsTheLesserShare) {
  Limiter limiter(PlanOf({Rate("10/s"), 2}, 0), {}, At(seconds(-5)));
  limiter.SetPlan(PlanOf({Rate("10/s"), 2}, {Rate("100/s"), 1}, kFirst + 1, 0), At(milliseconds(500)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(600))), 5);
  EXPECT_EQ(limiter.PartialLimit(At(seconds(1))), 50) << "somebody may still go by the old number of slots";
  EXPECT_EQ(limiter.PartialLimit(At(seconds(2))), 100);
}

TEST(ScheduledTest, WhatWasCalledOffStillCountsForAWhile) {
  Limiter limiter(PlanOf({Rate("100/s"), 1}, {Rate("100/s"), 2}, kFirst + 2, 0), {}, At(seconds(-5)));
  limiter.SetPlan(PlanOf({Rate("100/s"), 1}, 0), At(milliseconds(1500)));
  EXPECT_EQ(limiter.PartialLimit(At(milliseconds(1600))), 100);
  EXPECT_EQ(limiter.PartialLimit(At(seconds(2))), 50) << "somebody may have a second slot";
  EXPECT_EQ(limiter.PartialLimit(At(seconds(3))), 100);
}

TEST(ScheduledTest, TheBurstChangesWithTheRest) {
  Plan plan = PlanOf({Rate("100/s"), 1}, {Rate("100/s"), 1}, kFirst + 2, 0);
  plan.next->burst = Burst::kSmooth;
  Limiter limiter(plan, {}, At(seconds(-5)));
  EXPECT_EQ(testing::TakeAll(limiter, At(seconds(1))), 100);
  EXPECT_EQ(testing::TakeAll(limiter, At(seconds(2))), 1);
}

TEST(ScheduledTest, PartitionsKeepTheirDealing) {
  const auto share_of = [](std::uint32_t owned, Nanoseconds at) {
    Plan plan{Rate("100/s"), Burst::kAtOnce, PartitionDealing{{{"t", 4, {owned}}}}};
    Limiter limiter(plan, {}, At(seconds(-50)));
    plan.next = Plan::Next{kFirst + 2, Rate("10/s"), Burst::kAtOnce, plan.dealing};
    limiter.SetPlan(plan, At(milliseconds(500)));
    return limiter.PartialLimit(At(at));
  };
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (std::uint32_t owned = 0; owned < 4; ++owned) {
    before += share_of(owned, milliseconds(1999));
    after += share_of(owned, seconds(2));
  }
  EXPECT_EQ(before, 100);
  EXPECT_EQ(after, 10);
}

}  // namespace
}  // namespace posthorn::ratelimit
