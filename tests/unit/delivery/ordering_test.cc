// What a message waits for: nothing, those of its key, those of its partition.
#include <gmock/gmock.h>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using config::Ordering;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OrderingTest : public ShardTest {
 protected:
  /// One subscription "s" on one partition, with a message for each key; "-" stands for none.
  void Start(Ordering ordering, const std::vector<std::string>& keys) {
    Sub("s").ordering = ordering;
    AppendKeys(keys);
    Apply();
    AddPartition();
    lane_stats = AddLane("s");
  }
  void AppendKeys(const std::vector<std::string>& keys) {
    for (const auto& key : keys) Log()->Append("v", -1, key == "-" ? std::nullopt : std::optional(key));
  }
  void Change(Ordering ordering) {
    Sub("s").ordering = ordering;
    Apply();
  }
  std::vector<Offset> Pending() { return sender().pending_offsets(); }
  void Answer(Offset offset, Verdict verdict, int status) {
    const auto pending = Pending();
    const auto at = std::find(pending.begin(), pending.end(), offset);
    ASSERT_NE(at, pending.end()) << "offset " << offset << " is not in flight";
    const auto index = static_cast<std::size_t>(at - pending.begin());
    if (sender().Write(index)) sender().Finish(index, test::Respond(verdict, status));
    world.RunReady();
  }
  void Delivered(Offset offset) { Answer(offset, Verdict::kDelivered, 200); }
  void Failed(Offset offset) { Answer(offset, Verdict::kRetry, 500); }
};

TEST_F(OrderingTest, AFailingKeyHoldsOnlyItsOwnMessages) {
  Start(Ordering::kKey, {"a", "b", "a", "c", "b", "a"});
  EXPECT_THAT(Pending(), ElementsAre(0, 1, 3));
  Failed(0);
  Delivered(3);
  EXPECT_THAT(Pending(), ElementsAre(1));
  Delivered(1);
  EXPECT_THAT(Pending(), ElementsAre(4));
  Delivered(4);
  EXPECT_THAT(Pending(), IsEmpty());
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), ElementsAre(0));
  Delivered(0);
  EXPECT_THAT(Pending(), ElementsAre(2));
  Delivered(2);
  EXPECT_THAT(Pending(), ElementsAre(5));
  Delivered(5);
  EXPECT_EQ(lane_stats->next, 6);
  ExpectGaugesZero();
}

TEST_F(OrderingTest, MessagesWithoutAKeyWaitForNothingAndAnEmptyKeyIsOne) {
  Start(Ordering::kKey, {"-", "-", "", "-", ""});
  EXPECT_THAT(Pending(), ElementsAre(0, 1, 2, 3));
}

TEST_F(OrderingTest, OneAtATimeInAPartition) {
  Start(Ordering::kPartition, {"a", "-", "b"});
  AppendKeys({"c"});
  feeds[kPartition]->Wake();
  world.RunReady();
  EXPECT_THAT(Pending(), ElementsAre(0));
  Failed(0);
  EXPECT_THAT(Pending(), IsEmpty());
  world.Advance(seconds(1));
  for (Offset offset = 0; offset < 4; ++offset) {
    ASSERT_THAT(Pending(), ElementsAre(offset));
    Delivered(offset);
  }
}

TEST_F(OrderingTest, PartitionsDoNotWaitForOneAnother) {
  const TopicPartition other{"t", 1};
  Start(Ordering::kPartition, {"a", "a"});
  Log(other)->AppendMany(2);
  AddPartition(other);
  AddLane("s", other);
  EXPECT_THAT(sender().pending, SizeIs(2));
}

TEST_F(OrderingTest, TheNextOfAKeyGoesWhenTheDeadLetterIsWritten) {
  dead_letters.mode = test::FakeDeadLetters::Mode::kHold;
  Start(Ordering::kKey, {"a", "a"});
  Reject();
  EXPECT_THAT(Pending(), IsEmpty());
  dead_letters.Answer(false);
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), IsEmpty());
  dead_letters.Answer(true);
  world.RunReady();
  EXPECT_THAT(Pending(), ElementsAre(1));
}

TEST_F(OrderingTest, AnExpiredMessageLetsTheNextOfItsKeyGo) {
  Sub("s").ttl = milliseconds(2'500);
  Start(Ordering::kKey, {"a", "a"});
  Failed(0);
  world.Advance(seconds(1));
  Failed(0);
  EXPECT_THAT(dead_letters.written, SizeIs(1));
  EXPECT_THAT(Pending(), ElementsAre(1)) << "its own time has only begun";
  Failed(1);
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), ElementsAre(1));
}

TEST_F(OrderingTest, WhatIsTakenBackKeepsItsTurn) {
  Start(Ordering::kKey, {"a", "a"});
  sender().Finish(0, test::Respond(Verdict::kNotSent));
  world.RunReady();
  EXPECT_THAT(Pending(), ElementsAre(0));
}

TEST_F(OrderingTest, FromNoneToKeyWhatIsInFlightIsAwaited) {
  Sub("s").max_in_flight = 3;
  Start(Ordering::kNone, {"a", "a", "a", "a", "b"});
  EXPECT_THAT(Pending(), ElementsAre(0, 1, 2));
  Delivered(2);  // 3 goes
  Change(Ordering::kKey);
  Failed(1);
  EXPECT_THAT(Pending(), ElementsAre(0, 3, 4)) << "b has nothing to wait for";
  Failed(3);
  world.Advance(seconds(5));
  EXPECT_THAT(Pending(), ElementsAre(0, 4)) << "1 and 3 are due, but 0 is first";
  Failed(0);
  EXPECT_THAT(Pending(), ElementsAre(4));
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), ElementsAre(4, 0));
  Delivered(0);
  EXPECT_THAT(Pending(), ElementsAre(4, 1));
  Delivered(1);
  EXPECT_THAT(Pending(), ElementsAre(4, 3));
}

TEST_F(OrderingTest, FromKeyToNoneHeldMessagesGo) {
  Start(Ordering::kKey, {"a", "a", "b", "a"});
  Failed(0);
  Change(Ordering::kNone);
  EXPECT_THAT(Pending(), ElementsAre(2, 1, 3));
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), ElementsAre(2, 1, 3, 0));
}

TEST_F(OrderingTest, FromNoneToPartitionAndBack) {
  Sub("s").max_in_flight = 2;
  Start(Ordering::kNone, {"a", "b", "c", "d"});
  Change(Ordering::kPartition);
  Failed(1);
  EXPECT_THAT(Pending(), ElementsAre(0));
  Delivered(0);
  EXPECT_THAT(Pending(), IsEmpty()) << "1 waits for its time, the others for 1";
  world.Advance(seconds(1));
  EXPECT_THAT(Pending(), ElementsAre(1));
  Change(Ordering::kNone);
  EXPECT_THAT(Pending(), ElementsAre(1, 2));
}

TEST_F(OrderingTest, AChangeWhilePausedActsAfterwards) {
  Start(Ordering::kKey, {"a", "a", "a"});
  Sub("s").paused = true;
  Change(Ordering::kNone);
  EXPECT_THAT(Pending(), ElementsAre(0));
  Sub("s").paused = false;
  Apply();
  EXPECT_THAT(Pending(), ElementsAre(0, 1, 2));
}

TEST_F(OrderingTest, AKeyThatFailsForLongHoldsNobodyUpToTheBoundOfTheLane) {
  Sub("s").max_in_flight = 8;
  Start(Ordering::kKey, std::vector<std::string>(Lane::kMaxUnfinished - 2, std::string(200, 'a')));
  AppendKeys({"b", "c", "d"});
  feeds[kPartition]->Wake();
  world.RunReady();
  const auto last = static_cast<Offset>(Lane::kMaxUnfinished);
  EXPECT_THAT(Pending(), ElementsAre(0, last - 2, last - 1)) << "d is beyond the bound";
  Delivered(0);
  EXPECT_THAT(Pending(), ElementsAre(last - 2, last - 1, 1, last));
}

TEST_F(OrderingTest, HeldMessagesAreNotFinishedWhenThePartitionGoes) {
  Start(Ordering::kKey, {"a", "a", "b"});
  Delivered(2);
  const auto all = [](const Lane&) { return true; };
  bool drained = false;
  shards[0]->CloseLanes(all, true, [&] { drained = true; });
  shards[0]->CancelClosing();
  world.RunReady();
  EXPECT_TRUE(drained);
  const auto position = offsets.noted(Key())->position;
  EXPECT_EQ(position.next, 0);
  EXPECT_THAT(std::get<CommitState>(DecodeCommitState(0, position.metadata)).finished, ElementsAre(OffsetRange{2, 3}));
  ExpectGaugesZero();
}

}  // namespace
}  // namespace posthorn::delivery
