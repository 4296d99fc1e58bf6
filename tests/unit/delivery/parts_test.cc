// The small parts: tracker, backoff, ring, records and their memory, slots, counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "worker/delivery/backoff.h"
#include "worker/delivery/in_flight_slots.h"
#include "worker/delivery/offset_tracker.h"
#include "worker/delivery/partition_ring.h"
#include "worker/delivery/stats.h"

namespace posthorn::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(OffsetTrackerTest, ThePositionIsTheFirstUnfinishedMessage) {
  OffsetTracker tracker(10);
  EXPECT_EQ(tracker.next(), 10);
  const auto a = tracker.Start(10);
  const auto b = tracker.Start(11);
  const auto c = tracker.Start(15);
  EXPECT_EQ(tracker.Finish(b), 0u);
  EXPECT_EQ(tracker.next(), 10);
  EXPECT_EQ(tracker.unfinished_span(), 3u);
  EXPECT_EQ(tracker.Finish(a), 2u);
  EXPECT_EQ(tracker.next(), 15) << "12 to 14 do not exist";
  EXPECT_EQ(tracker.Finish(c), 1u);
  EXPECT_EQ(tracker.next(), 16);
  EXPECT_EQ(tracker.unfinished_span(), 0u);
}

TEST(OffsetTrackerTest, FinishedAheadAreRangesOverGaps) {
  OffsetTracker tracker(0);
  std::vector<OffsetTracker::Ticket> tickets;
  for (const Offset offset : {0, 1, 5, 6, 7, 9}) tickets.push_back(tracker.Start(offset));
  EXPECT_TRUE(tracker.FinishedAhead().empty());
  for (const auto i : {1U, 2U, 5U}) tracker.Finish(tickets[i]);
  EXPECT_EQ(tracker.FinishedAhead(), (std::vector<OffsetRange>{{1, 6}, {9, 10}}));
  tracker.Finish(tickets[0]);
  EXPECT_EQ(tracker.next(), 6);
  EXPECT_EQ(tracker.FinishedAhead(), (std::vector<OffsetRange>{{9, 10}}));
}

TEST(OffsetTrackerTest, AGapBeforeTheFirstMessageIsPassed) {
  OffsetTracker tracker(0);
  tracker.Start(7);
  EXPECT_EQ(tracker.next(), 7);
}

TEST(OffsetTrackerTest, AnyOrderOfFinishing) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    OffsetTracker tracker(0);
    std::vector<std::pair<OffsetTracker::Ticket, Offset>> open;
    Offset offset = 0;
    for (int step = 0; step < 200; ++step) {
      if (random() % 2 == 0 || open.empty()) {
        offset += static_cast<Offset>(1 + random() % 3);
        open.emplace_back(tracker.Start(offset), offset);
      } else {
        const auto i = random() % open.size();
        tracker.Finish(open[i].first);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      }
      const auto oldest = std::min_element(open.begin(), open.end());
      ASSERT_EQ(tracker.next(), oldest == open.end() ? offset + 1 : oldest->second);
    }
  }
}

config::Backoff Policy(milliseconds initial, double multiplier, milliseconds max, config::Jitter jitter) {
  return {initial, multiplier, max, jitter};
}

TEST(BackoffTest, GrowsFromInitialToMax) {
  const auto policy = Policy(seconds(1), 2, seconds(60), config::Jitter::kNone);
  EXPECT_EQ(BackoffFor(policy, 1, 0.5), seconds(1));
  EXPECT_EQ(BackoffFor(policy, 2, 0.5), seconds(2));
  EXPECT_EQ(BackoffFor(policy, 6, 0.5), seconds(32));
  EXPECT_EQ(BackoffFor(policy, 7, 0.5), seconds(60));
  EXPECT_EQ(BackoffFor(policy, std::numeric_limits<std::uint32_t>::max(), 0.5), seconds(60));
}

TEST(BackoffTest, MultiplierOneIsAFixedInterval) {
  const auto policy = Policy(milliseconds(250), 1, seconds(60), config::Jitter::kNone);
  EXPECT_EQ(BackoffFor(policy, 1, 0), milliseconds(250));
  EXPECT_EQ(BackoffFor(policy, 1'000'000, 0), milliseconds(250));
}

TEST(BackoffTest, FullJitterIsAPartOfTheIntervalButNeverBelowATenth) {
  const auto policy = Policy(seconds(1), 2, seconds(60), config::Jitter::kFull);
  EXPECT_EQ(BackoffFor(policy, 1, 0), milliseconds(100));
  EXPECT_EQ(BackoffFor(policy, 1, 0.5), milliseconds(500));
  EXPECT_LT(BackoffFor(policy, 1, 0x1.fffffffffffffp-1), seconds(1));
}

TEST(BackoffTest, TheExtremesNeverOverflow) {
  EXPECT_EQ(BackoffFor(Policy(milliseconds(0), 1e9, seconds(1), config::Jitter::kNone), 1'000'000, 0), milliseconds(0));
  EXPECT_GT(BackoffFor(Policy(seconds(1), 1e9, milliseconds::max(), config::Jitter::kNone), 1'000'000, 0),
            std::chrono::hours(24));
}

RecordPtr MakeRecord(std::string_view value) {
  Record::Parts parts;
  parts.value = value;
  return Record::Copy(parts);
}

TEST(RecordTest, CopiesEverything) {
  std::string key = "key", value = "value", name = "name", header = "header";
  const std::vector<HeaderView> headers = {{name, header}, {"null", std::nullopt}, {name, "last"}, {"empty", ""}};
  Record::Parts parts;
  parts.offset = 42;
  parts.timestamp_ms = 7;
  parts.key = key;
  parts.value = value;
  parts.headers = &headers;
  const auto record = Record::Copy(parts);
  key = value = name = header = "gone";
  EXPECT_EQ(record->offset(), 42);
  EXPECT_EQ(record->timestamp_ms(), 7);
  EXPECT_EQ(record->key(), "key");
  EXPECT_EQ(record->value(), "value");
  ASSERT_EQ(record->headers().size(), 4u);
  EXPECT_EQ(record->headers()[0].value, "header");
  EXPECT_EQ(record->FindHeader("name")->value, "last");
  EXPECT_EQ(record->FindHeader("null")->value, std::nullopt);
  EXPECT_EQ(record->FindHeader("empty")->value, "");
  EXPECT_EQ(record->FindHeader("Name"), nullptr);
}

TEST(RecordTest, NullAndEmptyAreNotTheSame) {
  Record::Parts parts;
  EXPECT_EQ(Record::Copy(parts)->key(), std::nullopt);
  EXPECT_EQ(Record::Copy(parts)->value(), std::nullopt);
  parts.key = parts.value = "";
  EXPECT_EQ(Record::Copy(parts)->key(), "");
  EXPECT_EQ(Record::Copy(parts)->value(), "");
}

TEST(MemoryAccountTest, RecordsCountUntilTheLastReferenceGoes) {
  const auto budget = std::make_shared<MemoryBudget>(1'000'000);
  auto account = std::make_shared<MemoryAccount>(budget);
  auto record = MakeRecord(std::string(1'000, 'x'));
  record->ChargeTo(account);
  EXPECT_GE(budget->used, 1'000u);
  EXPECT_EQ(account->used(), record->memory());
  auto other = record;
  record.reset();
  EXPECT_GE(budget->used, 1'000u);
  account.reset();
  other.reset();
  EXPECT_EQ(budget->used, 0u);
}

TEST(MemoryAccountTest, RoomIsAnEqualPart) {
  const auto budget = std::make_shared<MemoryBudget>(1'000);
  budget->parts = 4;
  MemoryAccount a(budget);
  MemoryAccount b(budget);
  EXPECT_EQ(a.Room(), 250u);
  a.Add(100);
  EXPECT_EQ(a.Room(), 150u);
  a.Add(200);
  EXPECT_EQ(a.Room(), 0u);
  EXPECT_EQ(b.Room(), 250u) << "who holds nothing may always take something";
  b.Add(1'000);
  a.Release(200);
  EXPECT_EQ(a.Room(), 0u) << "the worker's bound is reached";
  b.Release(1'000);
  EXPECT_EQ(a.Room(), 150u);
}

TEST(PartitionRingTest, SequencesGoOnOverTrimAndClear) {
  PartitionRing ring;
  for (int i = 0; i < 5; ++i) ring.Push(MakeRecord("x"));
  EXPECT_NE(ring.At(0), nullptr);
  ring.TrimBefore(2);
  EXPECT_EQ(ring.At(1), nullptr);
  EXPECT_NE(ring.At(2), nullptr);
  EXPECT_EQ(ring.At(5), nullptr);
  EXPECT_EQ(ring.end() - ring.begin(), 3u);
  ring.Clear();
  EXPECT_EQ(ring.begin(), 5u);
  EXPECT_TRUE(ring.empty());
  ring.Push(MakeRecord("x"));
  EXPECT_NE(ring.At(5), nullptr);
  ring.TrimBefore(100);
  EXPECT_EQ(ring.begin(), 6u);
}

TEST(InFlightSlotsTest, RefusedShardsAreNamedOnce) {
  InFlightSlots slots(1);
  EXPECT_TRUE(slots.TakeOrWait(0, 0, false));
  EXPECT_FALSE(slots.TakeOrWait(1, 0, false));
  EXPECT_FALSE(slots.TakeOrWait(3, 0, false));
  EXPECT_EQ(slots.Release(), 0b1010u);
  EXPECT_EQ(slots.used(), 0u);
  EXPECT_TRUE(slots.TakeOrWait(1, 0, false));
  EXPECT_EQ(slots.Release(), 0u);
}

TEST(InFlightSlotsTest, WhoHoldsItsPartLetsTheOthersGoFirst) {
  InFlightSlots slots(4);
  for (std::uint32_t held = 0; held < 4; ++held) EXPECT_TRUE(slots.TakeOrWait(0, held, false));
  EXPECT_FALSE(slots.TakeOrWait(1, 0, false));
  EXPECT_EQ(slots.Release(), 0b10u);
  EXPECT_FALSE(slots.TakeOrWait(0, 3, false)) << "a slot is free, but it is shard 1's";
  slots.WantNone(1);
  EXPECT_TRUE(slots.TakeOrWait(1, 0, false));
  EXPECT_EQ(slots.used(), 4u);
}

TEST(InFlightSlotsTest, NoWakeUpIsLost) {
  // Each thread takes a slot, or waits until somebody who gave one back names it. A lost wake-up hangs.
  constexpr std::uint32_t kThreads = 4;
  constexpr int kRounds = 20'000;
  InFlightSlots slots(2);
  std::array<std::atomic<bool>, kThreads> woken{};
  std::atomic<std::uint32_t> most{0};
  std::vector<std::thread> threads;
  for (std::uint32_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (int round = 0; round < kRounds; ++round) {
        slots.WantNone(me);
        while (!slots.TakeOrWait(me, 0, false)) {
          woken[me].wait(false);
          woken[me] = false;
          slots.WantNone(me);
        }
        const auto used = slots.used();
        for (auto seen = most.load(); used > seen && !most.compare_exchange_weak(seen, used);) {
        }
        const auto waiting = slots.Release();
        for (std::uint32_t shard = 0; shard < kThreads; ++shard) {
          if (((waiting >> shard) & 1U) == 0) continue;
          woken[shard] = true;
          woken[shard].notify_one();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(slots.used(), 0u);
  EXPECT_LE(most, 2u);
}

TEST(StatsTest, CountsOfALabelAreNeverMixedWithAnothers) {
  LabelCounts counts;
  const ratelimit::Label label = 1'793'000'000;
  counts.Add(label);
  counts.Add(label);
  EXPECT_EQ(counts.Of(label), 2u);
  EXPECT_EQ(counts.Of(label + static_cast<ratelimit::Label>(LabelCounts::kWindows)), 0u);
  counts.Add(label + static_cast<ratelimit::Label>(LabelCounts::kWindows));
  EXPECT_EQ(counts.Of(label), 0u);
}

TEST(StatsTest, AtMostTenFailuresASecondAreLogged) {
  SubscriptionShared shared("s", 1, 1);
  const auto at = ratelimit::StartOf(1'793'000'000);
  std::uint64_t suppressed = 0;
  int logged = 0;
  for (int i = 0; i < 25; ++i) logged += shared.NoteError("e" + std::to_string(i), at, &suppressed) ? 1 : 0;
  EXPECT_EQ(logged, 10);
  EXPECT_EQ(shared.last_error().text, "e24");
  EXPECT_TRUE(shared.NoteError("e", at + seconds(1), &suppressed));
  EXPECT_EQ(suppressed, 15u);
}

}  // namespace
}  // namespace posthorn::delivery
