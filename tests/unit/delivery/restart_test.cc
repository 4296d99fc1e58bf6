// What is known of a partition's messages goes on with whoever owns it next: a rebalance, a restart, a crash.
#include <gmock/gmock.h>

#include "tests/unit/delivery/dispatcher_fixture.h"

namespace posthorn::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RestartTest : public ::testing::Test, protected DispatcherBench {
 protected:
  RestartTest() {
    dispatcher->SetDrainLimit(milliseconds(0));
    auto& sub = Sub("s", "a");
    sub.backoff.initial = seconds(1);
    sub.backoff.multiplier = 2;
    sub.ttl = seconds(3'600);
  }

  test::FakeSender& sender() { return senders[0]->pending.empty() ? *senders[1] : *senders[0]; }
  [[nodiscard]] std::vector<Offset> PendingOffsets() { return sender().pending_offsets(); }
  void Answer(Offset offset, Verdict verdict, int status) {
    auto& from = sender();
    for (std::size_t i = 0; i < from.pending.size(); ++i) {
      if (from.pending[i].request.offset != offset) continue;
      if (from.Write(i)) from.Finish(i, test::Respond(verdict, status));
      world.RunReady();
      return;
    }
    ADD_FAILURE() << "offset " << offset << " is not in flight";
  }
  void Ok(Offset offset) { Answer(offset, Verdict::kDelivered, 200); }
  void Fail(Offset offset) { Answer(offset, Verdict::kRetry, 500); }

  /// The partition goes and comes back, perhaps to another process: everything was noted and stored before.
  void Rebalance() {
    Revoke({kA0});
    Assign({kA0});
  }
  /// The process dies: what is stored by then is all that is known.
  void Crash() {
    Revoke({kA0}, /*lost=*/true);
    Assign({kA0});
  }
  void Commit() {
    world.Advance(milliseconds(1250));
    offsets.WriteAll();
  }
};

TEST_F(RestartTest, FinishedAheadIsNotSentAgainAfterARebalance) {
  Apply();
  Append(kA0, 10);
  Assign({kA0});
  for (Offset offset = 1; offset < 10; ++offset) offset == 5 ? Fail(offset) : Ok(offset);
  Fail(0);
  const auto before = Written().size();
  Rebalance();
  EXPECT_EQ(offsets.stored(kKey), 0);
  world.Advance(seconds(2));
  EXPECT_THAT(PendingOffsets(), ElementsAre(0, 5));
  Ok(0);
  EXPECT_EQ(Next("s", kA0), 5) << "over what was finished before";
  Ok(5);
  EXPECT_EQ(Next("s", kA0), 10);
  EXPECT_EQ(Written().size(), before + 2);
}

TEST_F(RestartTest, AfterACrashOnlyWhatWasNotCommittedComesAgain) {
  Apply();
  Append(kA0, 6);
  Assign({kA0});
  for (const Offset offset : {1, 2, 4}) Ok(offset);
  Commit();
  EXPECT_EQ(offsets.stored(kKey), 0);
  Ok(5);
  Crash();
  EXPECT_THAT(PendingOffsets(), ElementsAre(0, 3, 5));
}

TEST_F(RestartTest, GapsInTheLogAreNoObstacle) {
  Apply();
  Append(kA0, 2);
  Log(kA0)->Skip(1'000);
  Append(kA0, 2);
  Assign({kA0});
  for (const Offset offset : {1, 1'002}) Ok(offset);
  Rebalance();
  EXPECT_THAT(PendingOffsets(), ElementsAre(0, 1'003));
}

TEST_F(RestartTest, WhatWasNotReadAgainStaysKnown) {
  Apply();
  Append(kA0, 4);
  Assign({kA0});
  for (const Offset offset : {1, 3}) Ok(offset);
  Fail(0);
  Revoke({kA0});
  const auto stored = offsets.stored_position(kKey);
  Sub("s").paused = true;
  Apply();
  Assign({kA0});
  EXPECT_EQ(offsets.noted(kKey)->position, *stored) << "kept from expiring";
  EXPECT_FALSE(offsets.noted(kKey)->changed);
  Rebalance();
  EXPECT_EQ(offsets.stored_position(kKey), stored);
  Sub("s").paused = false;
  Sub("s").max_in_flight = 1;
  Apply();
  EXPECT_THAT(PendingOffsets(), ElementsAre(2)) << "0 waits";
  Ok(2);
  Rebalance();
  world.Advance(seconds(1));
  EXPECT_THAT(PendingOffsets(), ElementsAre(0));
  Ok(0);
  EXPECT_EQ(Next("s", kA0), 4);
}

TEST_F(RestartTest, ARemovedSubscriptionKnowsWhatItFinishedWhenItComesBack) {
  Apply();
  Append(kA0, 3);
  Assign({kA0});
  Ok(1);
  RemoveSub("s");
  Apply();
  ASSERT_TRUE(AwaitDrops(kKey, 1));
  Sub("s", "a");
  Apply();
  ASSERT_TRUE(AwaitLanes());
  EXPECT_THAT(PendingOffsets(), ElementsAre(0, 2));
}

TEST_F(RestartTest, TheTtlDoesNotStartAnew) {
  auto& sub = Sub("s");
  sub.backoff.multiplier = 1;
  sub.ttl = milliseconds(7'500);
  Apply();
  Append(kA0);
  Assign({kA0});
  const auto first = world.clock.Read().wall;
  for (int second = 0; second < 7; ++second) {
    Fail(0);
    EXPECT_THAT(dead_letters.written, IsEmpty());
    if (second % 2 == 1) Rebalance();
    world.Advance(seconds(1));
  }
  Fail(0);  // at 7 s; the next one would be at 8 s
  ASSERT_THAT(dead_letters.written, SizeIs(1));
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kExpired);
  EXPECT_EQ(dead_letters.written[0].attempts, 8u);
  EXPECT_EQ(dead_letters.written[0].first_attempt, first);
  EXPECT_EQ(dead_letters.written[0].last_attempt, first + seconds(7));
}

TEST_F(RestartTest, WhatExpiredWhileNobodyRanIsNotSent) {
  Sub("s").ttl = seconds(60);
  Apply();
  Append(kA0);
  Assign({kA0});
  Fail(0);
  Revoke({kA0});
  world.Advance(seconds(61));
  const auto before = Written().size();
  Assign({kA0});
  ASSERT_THAT(dead_letters.written, SizeIs(1));
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kExpired);
  EXPECT_EQ(dead_letters.written[0].attempts, 1u);
  EXPECT_EQ(dead_letters.written[0].last_attempt, std::nullopt) << "another worker's";
  EXPECT_EQ(Written().size(), before);
}

TEST_F(RestartTest, TheBackoffGoesOn) {
  Apply();
  Append(kA0);
  Assign({kA0});
  Fail(0);
  world.Advance(seconds(1));
  Fail(0);
  world.Advance(seconds(2));
  Fail(0);  // 4 s to wait
  world.Advance(seconds(1));
  Rebalance();
  world.Advance(milliseconds(2'999));
  EXPECT_EQ(pending(), 0u);
  world.Advance(milliseconds(1));
  ASSERT_THAT(PendingOffsets(), ElementsAre(0));
  EXPECT_EQ(sender().pending[0].request.attempt, 4u);
  Fail(0);
  world.Advance(milliseconds(7'999));
  EXPECT_EQ(pending(), 0u);
  world.Advance(milliseconds(1));
  EXPECT_THAT(PendingOffsets(), ElementsAre(0));
}

TEST_F(RestartTest, AnAttemptCountReachesTheStoreWithoutAnyProgress) {
  Apply();
  Append(kA0);
  Assign({kA0});
  Fail(0);
  Commit();
  Crash();
  ASSERT_THAT(PendingOffsets(), ElementsAre(0));
  EXPECT_EQ(sender().pending[0].request.attempt, 2u);
}

TEST_F(RestartTest, ARefusedClockCannotHoldAMessageForEver) {
  Apply();
  Append(kA0);
  const auto now = std::chrono::duration_cast<milliseconds>(world.clock.Read().wall.time_since_epoch()).count();
  const auto year = std::chrono::duration_cast<milliseconds>(std::chrono::hours(24 * 365)).count();
  offsets.Store(kKey, 0, EncodeCommitState(0, {{}, {{0, 2, now + year, now + 2 * year}}}));
  Assign({kA0});
  world.Advance(Sub("s").retry_after_max);
  EXPECT_THAT(PendingOffsets(), ElementsAre(0));
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(RestartTest, MaxAttemptsAreCountedOverWorkers) {
  Sub("s").max_attempts = 3;
  Apply();
  Append(kA0);
  Assign({kA0});
  for (int attempt = 0; attempt < 3; ++attempt) {
    Fail(0);
    Rebalance();
    world.Advance(seconds(5));
  }
  ASSERT_THAT(dead_letters.written, SizeIs(1));
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kAttempts);
  EXPECT_EQ(dead_letters.written[0].attempts, 3u);
  EXPECT_EQ(Next("s", kA0), 1);
}

TEST_F(RestartTest, ADeadLetterThatCouldNotBeWrittenNeedsNoFurtherAttempt) {
  Sub("s").max_attempts = 1;
  dead_letters.mode = test::FakeDeadLetters::Mode::kHold;
  Apply();
  Append(kA0);
  Assign({kA0});
  Fail(0);
  ASSERT_THAT(dead_letters.held, SizeIs(1));
  Revoke({kA0});
  dead_letters.mode = test::FakeDeadLetters::Mode::kWrite;
  const auto before = Written().size();
  Assign({kA0});
  EXPECT_THAT(dead_letters.written, SizeIs(1));
  EXPECT_EQ(Written().size(), before);
}

TEST_F(RestartTest, ACancelledAttemptDoesNotCount) {
  Sub("s").max_attempts = 1;
  Apply();
  Append(kA0);
  Assign({kA0});
  sender().Write(0);
  Rebalance();  // nobody waits for the answer
  ASSERT_THAT(PendingOffsets(), ElementsAre(0));
  EXPECT_EQ(sender().pending[0].request.attempt, 1u);
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(RestartTest, MetadataThatIsNotOursIsIgnored) {
  Apply();
  Append(kA0, 3);
  const auto elsewhere = EncodeCommitState(1, {{{2, 3}}, {}});
  for (const auto& metadata : {std::string("NO_METADATA"), std::string("ph2:AAAA"), std::string("ph1:AAAAAAAA"),
                               std::string("\xff\0\x01", 3), elsewhere}) {
    offsets.Store(kKey, 0, metadata);
    Assign({kA0});
    EXPECT_THAT(PendingOffsets(), ElementsAre(0, 1, 2));
    EXPECT_EQ(offsets.noted(kKey)->position.metadata, metadata) << "left until there is something to store";
    Revoke({kA0}, true);
  }
}

TEST_F(RestartTest, WhatIsFinishedBeyondTheEndOfTheLogIsAnotherLogs) {
  Apply();
  Append(kA0, 4);
  bounds[kA0] = {0, 4};
  offsets.Store(kKey, 0, EncodeCommitState(0, {{{1, 3}, {4, 6}}, {}}));
  Assign({kA0});
  EXPECT_THAT(PendingOffsets(), ElementsAre(0, 1, 2, 3));
}

TEST_F(RestartTest, WhatIsKnownAboveTheLowestOffsetStaysWhenKafkaDropsTheRest) {
  Apply();
  Append(kA0, 10);
  bounds[kA0] = {5, 10};
  const auto now = std::chrono::duration_cast<milliseconds>(world.clock.Read().wall.time_since_epoch()).count();
  offsets.Store(kKey, 0, EncodeCommitState(0, {{{1, 2}, {3, 7}}, {{0, 4, now, now}, {8, 2, now, now}}}));
  EXPECT_THAT(Assign({kA0}), ElementsAre(5));
  EXPECT_THAT(PendingOffsets(), ElementsAre(7, 8, 9));
  EXPECT_EQ(sender().pending[1].request.attempt, 3u);
  EXPECT_TRUE(offsets.noted(kKey)->changed);
}

TEST_F(RestartTest, SubscriptionsOfATopicEachSkipTheirOwn) {
  Sub("t", "a");
  Apply();
  Append(kA0, 4);
  offsets.Store(kKey, 0, EncodeCommitState(0, {{{1, 3}}, {}}));
  offsets.Store({"t", kA0}, 1, EncodeCommitState(1, {{{2, 4}}, {}}));
  Assign({kA0});
  OkAll();
  EXPECT_THAT(Written(), ::testing::UnorderedElementsAre("s a/0@0", "s a/0@3", "t a/0@1"));
  EXPECT_EQ(Next("t", kA0), 4);
}

TEST_F(RestartTest, TenThousandFinishedAheadFitAndAreNotSentAgain) {
  auto& sub = Sub("s");
  sub.max_in_flight = 16;
  sub.backoff.initial = seconds(600);
  Apply();
  Append(kA0, Lane::kMaxUnfinished);
  Assign({kA0});
  // Every third one fails: nothing of it is a run.
  while (pending() > 0) {
    const auto offset = sender().pending[0].request.offset;
    offset % 3 == 0 ? Fail(offset) : Ok(offset);
  }
  const auto before = Written().size();
  ASSERT_EQ(before, Lane::kMaxUnfinished);
  Rebalance();
  EXPECT_LE(offsets.stored_position(kKey)->metadata.size(), kMaxCommitMetadata);
  world.Advance(seconds(700));
  while (pending() > 0) {
    EXPECT_EQ(PendingOffsets()[0] % 3, 0);
    Ok(PendingOffsets()[0]);
  }
  EXPECT_EQ(Written().size(), before + (Lane::kMaxUnfinished + 2) / 3);
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(Lane::kMaxUnfinished));
}

}  // namespace
}  // namespace posthorn::delivery
