// What may start now: slots, permits, memory, pauses, the guard; and how lanes share a partition and a limit.
#include <gmock/gmock.h>
#include <tuple>

#include <array>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FlowTest : public ShardTest {};

TEST_F(FlowTest, SubscriptionsOfATopicHaveCursorsOfTheirOwn) {
  Sub("a").max_in_flight = 1;
  Sub("b").max_in_flight = 10;
  Log()->AppendMany(5);
  Apply();
  AddPartition();
  const auto a = AddLane("a");
  const auto b = AddLane("b");
  std::map<std::string, int> requests;
  for (const auto& p : sender().pending) ++requests[p.request.subscription];
  EXPECT_EQ(requests["a"], 1);
  EXPECT_EQ(requests["b"], 5);
  while (b->next < 5) {
    for (std::size_t i = 0; i < sender().pending.size(); ++i) {
      if (sender().pending[i].request.subscription != "b") continue;
      sender().Write(i);
      sender().Finish(i, test::Respond(Verdict::kDelivered, 200));
      break;
    }
    world.RunReady();
  }
  EXPECT_EQ(a->next, 0);
  OkAll();
  EXPECT_EQ(a->next, 5);
}

TEST_F(FlowTest, NewMessagesAreSentWhenTheyCome) {
  Simple(0);
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  Append(2);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1));
  Log()->Skip(5);
  Append(1);
  OkAll();
  EXPECT_EQ(lane_stats->next, 8);
}

TEST_F(FlowTest, MaxInFlightHoldsOverShardsAndNoneStarves) {
  for (const std::uint32_t max : {1u, 2u, 3u, 5u, 8u}) {
    SCOPED_TRACE(max);
    const std::string name = "s" + std::to_string(max);
    const std::string topic = "t" + std::to_string(max);
    MakeShards(2);
    Sub(name).topic = topic;
    Sub(name).max_in_flight = max;
    Apply();
    for (std::size_t shard = 0; shard < 2; ++shard) {
      const TopicPartition id{topic, static_cast<std::int32_t>(shard)};
      Log(id)->AppendMany(100);
      AddPartition(id, 0, shard);
      AddLane(name, id, 0, shard);  // the first shard takes all slots
    }
    std::array<int, 2> done{};
    for (int i = 0; i < 100; ++i) {
      if (i > 2 * static_cast<int>(max)) {
        EXPECT_GE(senders[0]->pending.size() + 1, max / 2);
        EXPECT_GE(senders[1]->pending.size() + 1, max / 2);
      }
      ASSERT_EQ(senders[0]->pending.size() + senders[1]->pending.size(), max);
      std::size_t shard = i % 4 == 0 ? 1 : 0;
      if (senders[shard]->pending.empty()) shard = 1 - shard;
      senders[shard]->Ok();
      ++done[shard];
      world.RunReady();
    }
    EXPECT_GE(done[0], 20);
    EXPECT_GE(done[1], 20);
    for (int i = 0; i < 200; ++i) OkAll(0), OkAll(1);
    ExpectGaugesZero(name);
  }
}

TEST_F(FlowTest, AShardAloneUsesAllSlots) {
  MakeShards(2);
  Sub("s").max_in_flight = 4;
  Simple(100);
  AddPartition({"t", 1}, 0, 1);
  AddLane("s", {"t", 1}, 0, 1);
  EXPECT_EQ(sender().pending.size(), 4u);
  Append(1, {"t", 1});  // wants one, gets it, and then none any more
  Ok();
  EXPECT_EQ(senders[1]->pending.size(), 1u);
  OkAll(1);
  EXPECT_EQ(sender().pending.size(), 4u);
}

TEST_F(FlowTest, RaisedAndLoweredMaxInFlight) {
  Sub("s").max_in_flight = 2;
  Simple(20);
  EXPECT_EQ(sender().pending.size(), 2u);
  Sub("s").max_in_flight = 5;
  Apply();
  EXPECT_EQ(sender().pending.size(), 5u);
  Sub("s").max_in_flight = 1;
  Apply();
  for (int i = 0; i < 4; ++i) Ok();
  EXPECT_EQ(sender().pending.size(), 1u);
  Ok();
  EXPECT_EQ(sender().pending.size(), 1u);
}

TEST_F(FlowTest, ThePausedSubscriptionStopsAndDoesNotHoldUpTheOthers) {
  readers.most = 0;
  Sub("a").max_in_flight = 2;
  Sub("b").max_in_flight = 100;
  Log()->AppendMany(10'000);
  Apply();
  AddPartition();
  const auto a = AddLane("a");
  Sub("a").paused = true;
  Apply();
  const auto b = AddLane("b");
  OkAll();
  EXPECT_EQ(a->next, 2) << "what was in flight finished";
  EXPECT_EQ(b->next, 10'000);
  Sub("a").paused = false;
  Apply();
  EXPECT_EQ(feeds[kPartition]->seeks.back(), 3) << "a rewind; 2 was taken already";
  const auto before = sender().written.size();
  OkAll();
  EXPECT_EQ(a->next, 10'000);
  EXPECT_EQ(sender().written.size() - before, 9'998u) << "b did not get them twice";
}

TEST_F(FlowTest, AFullRingGoesOnAsSoonAsTheSlowestIsPaused) {
  readers.most = 0;
  Sub("a").max_in_flight = 1;
  Log()->AppendMany(5'000);
  Sub("b").max_in_flight = 1'000;
  Apply();
  AddPartition();
  AddLane("a");
  const auto b = AddLane("b");
  const auto finish_b = [&] {
    for (std::size_t i = 0; i < sender().pending.size();) {
      if (sender().pending[i].request.subscription != "b") {
        ++i;
        continue;
      }
      sender().Write(i);
      sender().Finish(i, test::Respond(Verdict::kDelivered, 200));
    }
    world.RunReady();
  };
  for (int i = 0; i < 20; ++i) finish_b();
  EXPECT_LT(b->next, 3'000) << "the ring is bounded by its slowest reader";
  Sub("a").paused = true;
  Apply();
  for (int i = 0; i < 20; ++i) finish_b();
  EXPECT_EQ(b->next, 5'000) << "without waiting for a tick";
}

TEST_F(FlowTest, RetriesOfAPausedSubscriptionWait) {
  Simple(1);
  Fail();
  Sub("s").paused = true;
  Apply();
  world.Advance(seconds(30));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  Sub("s").paused = false;
  Apply();
  ASSERT_THAT(sender().pending_offsets(), ElementsAre(0));
  Ok();
  EXPECT_EQ(lane_stats->next, 1);
}

TEST_F(FlowTest, ALaneThatJoinsLateRewindsAndOneThatIsAheadSkips) {
  readers.most = 0;
  Sub("a");
  Sub("b");
  Sub("c");
  Log()->AppendMany(30);
  Apply();
  AddPartition(kPartition, 10);
  const auto a = AddLane("a", kPartition, 10);
  OkAll();
  const auto b = AddLane("b", kPartition, 5);
  const auto c = AddLane("c", kPartition, 28);
  OkAll();
  EXPECT_EQ(a->next, 30);
  EXPECT_EQ(b->next, 30);
  EXPECT_EQ(c->next, 30);
  std::map<std::string, int> requests;
  for (const auto& w : sender().written) ++requests[w.subscription];
  EXPECT_EQ(requests["a"], 20);
  EXPECT_EQ(requests["b"], 25);
  EXPECT_EQ(requests["c"], 2);
  EXPECT_THAT(feeds[kPartition]->seeks, ElementsAre(5, 28));
}

TEST_F(FlowTest, WhatNobodyNeedsIsNotRead) {
  Sub("a");
  Log()->AppendMany(100);
  Apply();
  AddPartition(kPartition, 0);
  AddLane("a", kPartition, 90);
  EXPECT_THAT(feeds[kPartition]->seeks, ElementsAre(90));
  EXPECT_EQ(sender().pending_offsets().front(), 90);
}

TEST_F(FlowTest, RemovedAndAddedAgainBeforeTheOldLanesAreClosed) {
  Simple(5);
  shared.erase("s");  // a new identity under the same name
  Apply();
  const auto again = AddLane("s", kPartition, 0);
  EXPECT_EQ(sender().pending.size(), 10u) << "five in flight for the old one, five new";
  Append(5);
  OkAll();
  EXPECT_EQ(lane_stats->next, 5) << "nothing new for the old one";
  EXPECT_EQ(again->next, 10);
  Append(5'000);
  OkAll();
  EXPECT_EQ(again->next, 5'010) << "the old one does not hold up the ring";
}

TEST_F(FlowTest, TheUnfinishedSpanOfALaneIsBounded) {
  Sub("s").max_in_flight = 100'000;
  Simple(Lane::kMaxUnfinished + 500);
  EXPECT_EQ(sender().pending.size(), Lane::kMaxUnfinished);
  sender().Write(1);
  sender().Finish(1, test::Respond(Verdict::kDelivered, 200));
  world.RunReady();
  EXPECT_EQ(sender().pending.size(), Lane::kMaxUnfinished - 1) << "the oldest one is still there";
  Ok();
  EXPECT_EQ(sender().pending.size(), Lane::kMaxUnfinished);
}

TEST_F(FlowTest, TheMemoryBoundStopsReadingAndGoesOn) {
  memory = std::make_shared<MemoryBudget>(20'000);
  for (int i = 0; i < 1'000; ++i) Log()->Append(std::string(1'000, 'x'));
  Simple(0);
  EXPECT_GT(sender().pending.size(), 5u);
  EXPECT_LT(sender().pending.size(), 25u);
  std::uint64_t most = 0;
  while (!sender().pending.empty()) {
    Ok();
    most = std::max(most, memory->used.load());
  }
  EXPECT_EQ(lane_stats->next, 1'000);
  EXPECT_LT(most, 22'000u);
  EXPECT_EQ(memory->used, 0u);
}

TEST_F(FlowTest, AMessageLargerThanItsPartStillGetsThrough) {
  memory = std::make_shared<MemoryBudget>(1'000);
  Log()->Append(std::string(5'000, 'x'));
  Log()->Append(std::string(5'000, 'y'));
  Simple(0);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
  Ok();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(1));
}

TEST_F(FlowTest, ManyLanesShareALimitFairly) {
  limiters["s"] = MakeLimiter("70/s");
  Sub("s").max_in_flight = 1'000;
  Apply();
  for (std::int32_t i = 0; i < 7; ++i) {
    Log({"t", i})->AppendMany(1'000);
    AddPartition({"t", i});
    AddLane("s", {"t", i});
  }
  for (int i = 0; i < 1'000; ++i) {
    world.Advance(milliseconds(10));
    OkAll();
  }
  std::map<std::int32_t, int> requests;
  for (const auto& w : sender().written) ++requests[w.partition.partition];
  for (const auto& [partition, n] : requests) EXPECT_NEAR(n, 89, 2) << partition;
  EXPECT_EQ(requests.size(), 7u);
}

TEST_F(FlowTest, ASubscriptionWithoutSlotsDoesNotHoldUpTheOthersOfItsLimit) {
  limiters["a"] = limiters["b"] = MakeLimiter("100/s", ratelimit::Burst::kAtOnce);
  world.Advance(seconds(3));
  Sub("a").max_in_flight = 1;
  Sub("b").max_in_flight = 50;
  Log()->AppendMany(50);
  Apply();
  AddPartition();
  AddLane("a");
  AddLane("b");
  EXPECT_EQ(sender().pending.size(), 51u);
}

TEST_F(FlowTest, NeverAboveTheCapOfALabelAndFullUse) {
  // Slot 2 of 5 of a rate that does not divide evenly; requests are written at once, a little later, or much later.
  limiters["s"] = MakeLimiter("1003/s", ratelimit::Burst::kSmooth, 2, 5);
  ratelimit::Limiter reference(PlanFor("1003/s", ratelimit::Burst::kSmooth, 2, 5), {}, world.clock.Read().wall);
  Sub("s").max_in_flight = 10'000;
  Simple(5'000);
  std::map<ratelimit::Label, std::int64_t> written;
  std::map<ratelimit::Label, std::int64_t> caps;
  std::uint64_t step = 0;
  for (int ms = 0; ms < 12'000; ++ms) {
    world.Advance(milliseconds(1));
    const auto wall = world.clock.Read().wall;
    caps[ratelimit::LabelAt(wall)] = reference.PartialLimit(wall);
    while (!sender().pending.empty() && ++step % 3 != 0) {
      if (sender().Write(0)) {
        ++written[ratelimit::LabelAt(wall)];
        sender().Finish(0, test::Respond(Verdict::kDelivered, 200));
      }
      world.RunReady();
    }
  }
  int full = 0;
  for (const auto& [label, n] : written) {
    EXPECT_LE(n, caps[label]) << label;
    if (n >= caps[label] - 2 && n > 0) ++full;
  }
  EXPECT_GE(full, 9);
}

TEST_F(FlowTest, APermitWhoseWindowHasPassedIsRenewedOrTakenBack) {
  limiters["s"] = MakeLimiter("2/s", ratelimit::Burst::kAtOnce);
  world.Advance(seconds(3));
  Simple(4);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1));
  world.StandStill(seconds(1));  // no timer has fired: the running window is untouched
  EXPECT_TRUE(sender().Write(0));
  EXPECT_TRUE(sender().Write(1));
  world.RunReady();
  EXPECT_EQ(sender().pending.size(), 2u) << "the window is used up";
  const auto label = ratelimit::LabelAt(world.clock.Read().wall);
  EXPECT_EQ(limiters["s"]->UsedIn(label), 2);
  EXPECT_EQ(stats().attempts_by_label.Of(label), 2u);
  EXPECT_EQ(stats().not_sent.value(), 2u) << "those of the window that has passed";
  world.Advance(seconds(1));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1, 2, 3));
}

TEST_F(FlowTest, ARaisedAndALoweredLimitActAtOnce) {
  limiters["s"] = MakeLimiter("10/s", ratelimit::Burst::kAtOnce);
  world.Advance(seconds(3));
  Simple(500);
  EXPECT_EQ(sender().pending.size(), 10u);
  limiters["s"]->SetPlan(PlanFor("20/s", ratelimit::Burst::kAtOnce), world.clock.Read().wall);
  Apply();
  EXPECT_EQ(sender().pending.size(), 20u);
  limiters["s"]->SetPlan(PlanFor("5/s", ratelimit::Burst::kAtOnce), world.clock.Read().wall);
  Apply();
  world.Advance(seconds(1));
  EXPECT_EQ(sender().pending.size(), 25u);
  limiters["s"]->SetPlan(PlanFor("0", ratelimit::Burst::kAtOnce), world.clock.Read().wall);
  Apply();
  world.Advance(seconds(5));
  EXPECT_EQ(sender().pending.size(), 25u);
}

TEST_F(FlowTest, ASubscriptionMayChangeItsLimitAndLoseIt) {
  limiters["s"] = MakeLimiter("1/s", ratelimit::Burst::kAtOnce);
  world.Advance(seconds(3));
  Simple(200);
  EXPECT_EQ(sender().pending.size(), 1u);
  limiters["s"] = MakeLimiter("7/s", ratelimit::Burst::kAtOnce);
  Apply();
  world.Advance(seconds(2));
  EXPECT_GE(sender().pending.size(), 8u);
  EXPECT_LE(sender().pending.size(), 15u);
  limiters.erase("s");
  Apply();
  EXPECT_EQ(sender().pending.size(), 64u);
}

TEST_F(FlowTest, APermitOfAnotherLimitIsNotUsed) {
  world.Advance(seconds(3));
  Simple(3);
  EXPECT_EQ(sender().pending.size(), 3u);  // without a limit
  limiters["s"] = MakeLimiter("2/s", ratelimit::Burst::kAtOnce);
  Apply();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(sender().Write(0));
  world.Advance(milliseconds(1'500));
  EXPECT_EQ(sender().pending.size(), 2u);
  limiters.erase("s");
  Apply();
  EXPECT_TRUE(sender().Write(0));
}

TEST_F(FlowTest, AfterStandingStillNothingStartsBeforeTheMembershipIsConfirmed) {
  Sub("s").max_in_flight = 2;
  Simple(10);
  world.StandStill(seconds(21));
  EXPECT_FALSE(sender().Write(0)) << "taken back at the last moment";
  EXPECT_EQ(guard.suspected, 1);
  world.Advance(seconds(5));
  EXPECT_EQ(guard.suspected, 1) << "asked once";
  EXPECT_EQ(sender().pending.size(), 1u);
  EXPECT_FALSE(sender().Write(0));
  world.Advance(seconds(5));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  EXPECT_EQ(offsets.updates(), 0);
  guard.Confirm();
  shards[0]->PumpAll();
  world.RunReady();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1));
  OkAll();
  EXPECT_EQ(lane_stats->next, 10);
}

TEST_F(FlowTest, NothingIsCommittedWhileTheMembershipIsInDoubt) {
  Simple(3);
  OkAll();
  guard.Suspect();
  world.Advance(seconds(10));
  EXPECT_EQ(offsets.updates(), 0);
  guard.Confirm();
  world.Advance(seconds(1));
  EXPECT_EQ(NotedNext(), 3);
}

TEST_F(FlowTest, ClosingWaitsForWhatIsInFlightThenCommits) {
  Sub("s").max_in_flight = 2;
  Simple(10);
  sender().Write(0);
  sender().Write(1);
  bool drained = false;
  shards[0]->CloseLanes([](const Lane&) { return true; }, true, [&] { drained = true; });
  world.RunReady();
  EXPECT_FALSE(drained);
  Ok();
  EXPECT_FALSE(drained);
  Ok();
  EXPECT_TRUE(drained);
  EXPECT_EQ(NotedNext(), 2);
  EXPECT_TRUE(offsets.noted(Key())->urgent);
  EXPECT_EQ(sender().written.size(), 2u);
  ExpectGaugesZero();
}

TEST_F(FlowTest, ClosingTakesBackWhatIsNotWrittenYetAndWaitsForDeadLetters) {
  Sub("s").max_in_flight = 3;
  dead_letters.mode = test::FakeDeadLetters::Mode::kHold;
  Simple(10);
  sender().Write(0);
  bool drained = false;
  shards[0]->CloseLanes([](const Lane&) { return true; }, true, [&] { drained = true; });
  EXPECT_FALSE(sender().Write(1));
  EXPECT_FALSE(sender().Write(1));
  sender().Finish(0, test::Respond(Verdict::kRejected, 400));
  world.RunReady();
  EXPECT_FALSE(drained);
  dead_letters.Answer(true);
  world.RunReady();
  EXPECT_TRUE(drained);
  EXPECT_EQ(NotedNext(), 1);
  ExpectGaugesZero();
}

TEST_F(FlowTest, ACancelledAttemptFinishesNothing) {
  Sub("s").max_attempts = 1;
  Simple(3);
  sender().Write(0);
  sender().Write(1);
  sender().Finish(1, test::Respond(Verdict::kDelivered, 200));
  bool drained = false;
  shards[0]->CloseLanes([](const Lane&) { return true; }, true, [&] { drained = true; });
  shards[0]->CancelClosing();
  world.RunReady();
  EXPECT_TRUE(drained);
  EXPECT_EQ(sender().cancelled, 2u);
  EXPECT_EQ(dead_letters.asked, 0u) << "whoever gets the partition tries it again";
  EXPECT_EQ(NotedNext(), 0);
  EXPECT_EQ(lane_stats->next, 0);
  ExpectGaugesZero();
}

TEST_F(FlowTest, ALostPartitionCommitsNothing) {
  Sub("s").max_in_flight = 2'000;
  Simple(1'500);
  Ok();
  bool drained = false;
  shards[0]->CloseLanes([](const Lane&) { return true; }, /*commit=*/false, [&] { drained = true; });
  for (std::size_t i = 0; i < 1'499; ++i) std::ignore = sender().pending[i].handler->OnBeforeWrite();
  while (!sender().pending.empty()) sender().Finish(0, test::Respond(Verdict::kDelivered, 200));
  world.Advance(seconds(5));
  EXPECT_TRUE(drained);
  EXPECT_EQ(offsets.updates(), 0);
  ExpectGaugesZero();
}

TEST_F(FlowTest, LateAnswersOfTheDeadLetterSinkChangeNothing) {
  dead_letters.mode = test::FakeDeadLetters::Mode::kHold;
  Simple(1);
  Reject();
  CloseAll(0);
  dead_letters.Answer(true);
  world.RunReady();
  EXPECT_EQ(lane_stats->next, 0);
  EXPECT_EQ(stats().rejected.value(), 0u);
  ExpectGaugesZero();
}

TEST_F(FlowTest, ThePartitionGoesAwayAndComesBack) {
  Simple(5);
  OkAll();
  CloseAll(0);
  EXPECT_FALSE(feeds[kPartition]->watched());
  EXPECT_EQ(memory->used, 0u);
  Log()->AppendMany(2);
  AddPartition(kPartition, 5);
  const auto again = AddLane("s", kPartition, 5);
  OkAll();
  EXPECT_EQ(again->next, 7);
  EXPECT_EQ(sender().written.size(), 7u);
}

TEST_F(FlowTest, AMessageBeyondTheBoundBecomesADeadLetterInItsTurn) {
  memory = std::make_shared<MemoryBudget>(std::uint64_t{64} << 20);  // 8 MiB each at most
  Sub("s").ordering = config::Ordering::kPartition;
  Log()->Append("first");
  Log()->Append(std::string(std::size_t{9} << 20, 'x'));
  Log()->Append(std::string(std::size_t{1} << 20, 'y'));
  Apply();
  AddPartition();
  const auto lane = AddLane("s");
  EXPECT_TRUE(dead_letters.written.empty()) << "it waits for the first one";
  OkAll();
  EXPECT_EQ(sender().written_offsets(), (std::vector<Offset>{0, 2}));
  EXPECT_EQ(lane->next, 3);
  ASSERT_EQ(dead_letters.written.size(), 1u);
  const auto& letter = dead_letters.written[0];
  EXPECT_EQ(letter.reason, DeadLetterReason::kTooLarge);
  EXPECT_TRUE(letter.without_value);
  EXPECT_EQ(letter.attempts, 0u);
}

}  // namespace
}  // namespace posthorn::delivery
