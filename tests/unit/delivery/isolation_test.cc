// A subscription that does not keep step reads apart and comes back; its topic's others never notice.
#include <gmock/gmock.h>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kRing = 16;

class IsolationTest : public ShardTest {
 protected:
  IsolationTest() : ShardTest(kRing) {}

  void Start(const std::vector<std::string>& names, std::size_t messages) {
    for (const auto& name : names) Sub(name);
    Log()->AppendMany(messages);
    Apply();
    AddPartition();
    AddLanes(names);
  }
  /// All of them before anything is read, as after an assignment.
  void AddLanes(const std::vector<std::string>& names) {
    for (const auto& name : names) {
      lanes[name] = std::make_shared<LaneStats>(kPartition, 0);
      shards[0]->AddLane(kPartition, {name, lanes[name], 0});
    }
    world.RunReady();
  }
  /// Answers everything of one subscription until it has nothing more to send.
  void Deliver(const std::string& name) { DeliverAtMost(name, Log()->entries.size() + 1); }
  void DeliverAtMost(const std::string& name, std::size_t n) {
    for (std::size_t i = 0; n > 0 && i < sender().pending.size();) {
      if (sender().pending[i].request.subscription != name) {
        ++i;
        continue;
      }
      if (sender().Write(i)) sender().Finish(i, test::Respond(Verdict::kDelivered, 200));
      world.RunReady();
      i = 0;
      --n;
    }
  }
  std::vector<Offset> SentTo(const std::string& name) {
    std::vector<Offset> sent;
    for (const auto& w : sender().written) {
      if (w.subscription == name) sent.push_back(w.offset);
    }
    return sent;
  }
  /// Each message once, in order: nobody answers out of order here.
  void ExpectAllSent(const std::string& name) {
    const auto sent = SentTo(name);
    const auto& entries = Log()->entries;
    ASSERT_EQ(sent.size(), entries.size()) << name;
    for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(sent[i], entries[i].offset) << name;
    EXPECT_EQ(lanes[name]->next, entries.back().offset + 1) << name;
  }
  LaneReader ReaderOf(const std::string& name) { return lanes[name]->reader; }

  std::map<std::string, std::shared_ptr<LaneStats>> lanes;
};

TEST_F(IsolationTest, AStuckSubscriptionHoldsNobodyUpAndComesBack) {
  Sub("stuck").max_in_flight = 2;
  Start({"stuck", "well"}, 500);
  Deliver("well");
  ExpectAllSent("well");
  EXPECT_EQ(ReaderOf("well"), LaneReader::kShared);
  EXPECT_NE(ReaderOf("stuck"), LaneReader::kShared);
  EXPECT_THAT(feeds[kPartition]->seeks, IsEmpty());
  EXPECT_EQ(lanes["stuck"]->next, 0);

  Append(3);
  Deliver("well");
  ExpectAllSent("well");

  Deliver("stuck");
  ExpectAllSent("stuck");
  EXPECT_EQ(ReaderOf("stuck"), LaneReader::kShared);
  EXPECT_EQ(readers.open(), 0u);
  EXPECT_EQ(memory->parts, 1u);
  Append(1);
  Deliver("stuck");
  Deliver("well");
  ExpectAllSent("stuck");
  ExpectAllSent("well");
  EXPECT_THAT(feeds[kPartition]->seeks, IsEmpty());
}

TEST_F(IsolationTest, TheSiblingGetsEachMessageAsSoonAsItIsThere) {
  Sub("stuck").max_in_flight = 1;
  Start({"stuck", "well"}, 1);
  Deliver("well");
  for (int i = 0; i < 200; ++i) {
    Append(1);
    ASSERT_THAT(sender().pending_offsets(), Contains(i + 1)) << "no tick, no timer was needed";
    Deliver("well");
  }
}

TEST_F(IsolationTest, WhoComesBackFarBehindReadsApart) {
  Sub("away").paused = true;
  Start({"away", "well"}, 300);
  Deliver("well");
  Sub("away").paused = false;
  Apply();
  EXPECT_EQ(ReaderOf("away"), LaneReader::kOwn);
  EXPECT_THAT(feeds[kPartition]->seeks, IsEmpty()) << "the others' feed stays where it is";
  Deliver("away");
  ExpectAllSent("away");
  EXPECT_EQ(ReaderOf("away"), LaneReader::kShared);
  ExpectAllSent("well");
}

TEST_F(IsolationTest, WithNobodyLeftItTakesTheSharedFeedOver) {
  Sub("slow").max_in_flight = 1;
  Start({"slow", "well"}, 300);
  Deliver("well");
  DeliverAtMost("slow", 20);
  ASSERT_NE(ReaderOf("slow"), LaneReader::kShared);
  Sub("well").paused = true;
  Apply();
  EXPECT_EQ(ReaderOf("slow"), LaneReader::kShared);
  EXPECT_EQ(readers.open(), 0u);
  EXPECT_THAT(feeds[kPartition]->seeks, ElementsAre(22));
  Sub("well").paused = false;
  Apply();
  Append(2);
  Deliver("well");
  ExpectAllSent("well");
  Deliver("slow");
  ExpectAllSent("slow");
}

TEST_F(IsolationTest, WithMoreApartThanReadersTheyTakeTurns) {
  readers.most = 1;
  for (const auto* name : {"a", "b", "c"}) Sub(name).max_in_flight = 1;
  Start({"a", "b", "c", "well"}, 400);
  Deliver("well");
  ExpectAllSent("well");
  for (int round = 0; round < 200; ++round) {
    for (const auto* name : {"a", "b", "c"}) DeliverAtMost(name, 10);
    world.Advance(seconds(1));
  }
  for (const auto* name : {"a", "b", "c"}) {
    ExpectAllSent(name);
    EXPECT_EQ(ReaderOf(name), LaneReader::kShared);
  }
  EXPECT_EQ(readers.too_many, 0);
  EXPECT_EQ(readers.open(), 0u);
}

TEST_F(IsolationTest, AReaderThatStaysSilentLosesItsTurnAndNothingElse) {
  readers.most = 1;
  readers.silent = true;
  for (const auto* name : {"a", "b"}) Sub(name).max_in_flight = 1;
  Start({"a", "b", "well"}, 100);
  Deliver("well");
  Deliver("a");
  Deliver("b");
  EXPECT_THAT((std::vector<LaneReader>{ReaderOf("a"), ReaderOf("b")}),
              ::testing::UnorderedElementsAre(LaneReader::kOwn, LaneReader::kWaitsForOwn));
  readers.silent = false;
  world.Advance(seconds(11));
  for (int i = 0; i < 4; ++i) {
    Deliver("a");
    Deliver("b");
    world.Advance(seconds(11));
  }
  ExpectAllSent("a");
  ExpectAllSent("b");
  ExpectAllSent("well");
}

TEST_F(IsolationTest, WhoIsFarAheadNeedNotWaitForTheOthers) {
  Sub("behind").max_in_flight = 1;
  Sub("ahead");
  Log()->AppendMany(1'000);
  Apply();
  AddPartition();
  lanes["behind"] = AddLane("behind");
  lanes["ahead"] = AddLane("ahead", kPartition, 1'000);
  EXPECT_THAT(feeds[kPartition]->seeks, ElementsAre(1'000)) << "what lies between is not read for it";
  EXPECT_NE(ReaderOf("behind"), LaneReader::kShared);
  Append(1);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1'000));
  Deliver("ahead");
  Deliver("behind");
  ExpectAllSent("behind");
  EXPECT_EQ(ReaderOf("behind"), LaneReader::kShared);
}

TEST_F(IsolationTest, GapsInTheLogKeepNobodyApart) {
  Sub("slow").max_in_flight = 1;
  Sub("well");
  for (int i = 0; i < 100; ++i) Log()->Append(), Log()->Skip(i % 5 == 0 ? 40 : 0);
  Apply();
  AddPartition();
  AddLanes({"slow", "well"});
  Deliver("well");
  Deliver("slow");
  ExpectAllSent("slow");
  Append(1);
  Deliver("well");
  Deliver("slow");
  EXPECT_EQ(ReaderOf("slow"), LaneReader::kShared);
}

TEST_F(IsolationTest, WhatItHoldsIsBoundedAndLeavesRoomForTheOthers) {
  memory = std::make_shared<MemoryBudget>(300'000);
  for (const auto* name : {"a", "b", "c"}) Sub(name).max_in_flight = 1'000;
  Sub("well");
  for (int i = 0; i < 2'000; ++i) Log()->Append(std::string(2'000, 'x'));
  Apply();
  AddPartition();
  AddLanes({"a", "b", "c", "well"});
  std::uint64_t most = 0;
  for (int i = 0; i < 2'000; ++i) {
    DeliverAtMost("well", 1);
    most = std::max<std::uint64_t>(most, memory->used);
    if (i % 100 == 0) world.Advance(milliseconds(300));
  }
  world.Advance(seconds(2));
  Deliver("well");
  ExpectAllSent("well");
  EXPECT_LE(most, memory->limit + 4 * 3'000) << "no more than a message beyond for each that holds nothing";
  for (const auto* name : {"a", "b", "c"}) Deliver(name), world.Advance(seconds(1));
  for (int i = 0; i < 20; ++i) {
    for (const auto* name : {"a", "b", "c"}) Deliver(name);
    world.Advance(seconds(11));
  }
  for (const auto* name : {"a", "b", "c"}) {
    EXPECT_EQ(lanes[name]->next, 2'000) << name;
    EXPECT_EQ(SentTo(name).size(), 2'000u) << name;
  }
}

TEST_F(IsolationTest, APartitionGivenBackTakesItsReadersAlong) {
  Sub("stuck").max_in_flight = 1;
  Start({"stuck", "well"}, 300);
  Deliver("well");
  DeliverAtMost("stuck", 20);
  ASSERT_EQ(readers.open(), 1u);
  CloseAll(0);
  EXPECT_EQ(readers.open(), 0u);
  EXPECT_EQ(memory->parts, 1u) << "the test's own";
  EXPECT_EQ(memory->used, 0u);
}

TEST_F(IsolationTest, AStoppedSubscriptionGivesItsReaderBack) {
  readers.most = 1;
  for (const auto* name : {"a", "b"}) Sub(name).max_in_flight = 1;
  readers.silent = true;  // the turn does not end because there is enough
  Start({"a", "b", "well"}, 300);
  Deliver("well");
  DeliverAtMost("a", 12);
  ASSERT_EQ(ReaderOf("a"), LaneReader::kOwn);
  DeliverAtMost("b", 12);
  ASSERT_EQ(ReaderOf("b"), LaneReader::kWaitsForOwn);
  Sub("a").paused = true;
  Apply();
  EXPECT_EQ(ReaderOf("b"), LaneReader::kOwn);
  EXPECT_EQ(readers.open(), 1u);
}

}  // namespace
}  // namespace posthorn::delivery
