#include "worker/delivery/dispatcher.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/delivery/dispatcher_fixture.h"

namespace posthorn::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const TopicPartition kB0{"b", 0};

class DispatcherTest : public ::testing::Test, protected DispatcherBench {};

TEST_F(DispatcherTest, SubscribesToTheUnionOfTheTopics) {
  Sub("s", "a");
  Sub("t", "a");
  Sub("u", "b");
  Apply();
  Sub("u").max_in_flight = 3;
  Apply();
  RemoveSub("u");
  Apply();
  EXPECT_THAT(subscribed, ElementsAre(std::set<std::string>{"a", "b"}, std::set<std::string>{"a"}));
}

TEST_F(DispatcherTest, LanesStartAtTheStoredPositionAndTheFeedAtTheSmallest) {
  Sub("s", "a");
  Sub("t", "a");
  Apply();
  Append(kA0, 10);
  offsets.Store({"s", kA0}, 7);
  offsets.Store({"t", kA0}, 4);
  EXPECT_THAT(Assign({kA0}), ElementsAre(4));
  EXPECT_EQ(Next("s", kA0), 7);
  EXPECT_EQ(Next("t", kA0), 4);
  OkAll();
  EXPECT_EQ(Written().size(), 3u + 6u);
  EXPECT_THAT(feeds[kA0]->seeks, IsEmpty());
}

TEST_F(DispatcherTest, WithoutAStoredPositionTheConfigurationSays) {
  Sub("first", "a").start = config::Start::kEarliest;
  Sub("last", "a").start = config::Start::kLatest;
  Apply();
  bounds[kA0] = {3, 9};
  EXPECT_THAT(Assign({kA0}), ElementsAre(3));
  EXPECT_EQ(Next("first", kA0), 3);
  EXPECT_EQ(Next("last", kA0), 9);
  ASSERT_TRUE(offsets.noted({"last", kA0}));
  EXPECT_EQ(offsets.noted({"last", kA0})->position.next, 9) << "a crash must not move it";
  EXPECT_TRUE(offsets.noted({"last", kA0})->changed);
}

TEST_F(DispatcherTest, AStoredPositionOutsideTheLogIsBroughtBackAndStored) {
  Sub("below", "a");
  Sub("beyond", "a");
  Sub("within", "a");
  Sub("at_end", "a");
  Apply();
  bounds[kA0] = {100, 200};
  offsets.Store({"below", kA0}, 5);
  offsets.Store({"beyond", kA0}, 201);
  offsets.Store({"within", kA0}, 150);
  offsets.Store({"at_end", kA0}, 200);
  EXPECT_THAT(Assign({kA0}), ElementsAre(100));
  EXPECT_EQ(Next("below", kA0), 100);
  EXPECT_EQ(Next("beyond", kA0), 100);
  EXPECT_EQ(Next("within", kA0), 150);
  EXPECT_EQ(Next("at_end", kA0), 200);
  EXPECT_TRUE(offsets.noted({"beyond", kA0})->changed) << "or a longer log makes it look right one day";
  EXPECT_FALSE(offsets.noted({"within", kA0})->changed) << "only kept from expiring";
}

TEST_F(DispatcherTest, EveryRebalanceHasThePositionsWrittenAgain) {
  Assign({kA0});
  EXPECT_EQ(offsets.write_agains(), 1);
  Assign({});
  EXPECT_EQ(offsets.write_agains(), 2);
}

TEST_F(DispatcherTest, AssignmentWaitsUntilTheStoreCanBeAsked) {
  Sub("s", "a");
  Apply();
  offsets.Store({"s", kA0}, 5);
  offsets.FailFetches(3);
  offsets.FailBounds(2);
  EXPECT_THAT(Assign({kA0}), ElementsAre(5));
  EXPECT_EQ(offsets.fetches(), 6);
}

TEST_F(DispatcherTest, AnAssignmentDoesNotHoldUpTheGroupForLongAndTheLanesFollow) {
  Sub("s", "a");
  Apply();
  Append(kA0, 8);
  offsets.Store({"s", kA0}, 5);
  offsets.FailFetches(20);
  offsets.on_fetch = [this] {
    world.clock.Advance(seconds(1));
    world.Notify();
  };
  Assign({kA0});
  EXPECT_EQ(dispatcher->owned_partitions(), 1u);
  EXPECT_LT(offsets.fetches(), 20) << "it has waited for the store";
  ASSERT_TRUE(AwaitLanes());
  OkAll();
  EXPECT_EQ(Next("s", kA0), 8);
  EXPECT_EQ(Written().size(), 3u);
}

TEST_F(DispatcherTest, AnAssignmentThatIsCancelledReturns) {
  Sub("s", "a");
  Apply();
  offsets.FailFetches(1'000'000);
  cancelled = true;
  Assign({kA0});
  EXPECT_EQ(dispatcher->owned_partitions(), 0u);
  EXPECT_EQ(pending(), 0u);
}

TEST_F(DispatcherTest, AnAssignmentDoesNotOutliveTheReconciler) {
  Sub("s", "a");
  Apply();
  dispatcher->StopReconciling();
  offsets.FailFetches(1'000'000);
  Assign({kA0});
  EXPECT_EQ(dispatcher->owned_partitions(), 0u);
}

TEST_F(DispatcherTest, PartitionsAreSpreadOverTheShards) {
  Sub("s", "a");
  Apply();
  for (std::int32_t i = 0; i < 6; ++i) Append({"a", i});
  Assign({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}});
  EXPECT_EQ(senders[0]->pending.size(), 2u);
  EXPECT_EQ(senders[1]->pending.size(), 2u);
  EXPECT_EQ(memory->parts, 4u);
  OkAll();
  Revoke({{"a", 0}, {"a", 2}});
  EXPECT_EQ(memory->parts, 2u);
  Assign({{"a", 4}, {"a", 5}});
  EXPECT_EQ(senders[0]->pending.size() + senders[1]->pending.size(), 2u);
}

TEST_F(DispatcherTest, RevokingWaitsForWhatIsInFlightAndStoresIt) {
  Sub("s", "a").max_in_flight = 2;
  Apply();
  Append(kA0, 10);
  Assign({kA0});
  auto& sender = senders[0]->pending.empty() ? *senders[1] : *senders[0];
  sender.Write(0);
  sender.Write(1);
  std::atomic<bool> returned = false;
  std::thread membership([&] {
    dispatcher->OnRevoked({kA0}, false);
    returned = true;
    world.Notify();
  });
  // The lane closes only when the loops run: until both requests are answered the membership's thread waits.
  EXPECT_TRUE(world.Await([&] { return !sender.pending[0].handler->OnBeforeWrite(); }));
  EXPECT_FALSE(returned);
  sender.Ok();
  world.RunReady();
  EXPECT_FALSE(returned);
  sender.Ok();
  EXPECT_TRUE(world.Await([&] { return returned.load(); }));
  membership.join();
  feeds.erase(kA0);
  EXPECT_EQ(offsets.stored({"s", kA0}), 2);
  EXPECT_EQ(pending(), 0u) << "nothing new was started";
  EXPECT_EQ(dispatcher->owned_partitions(), 0u);
  EXPECT_EQ(memory->used, 0u);
}

TEST_F(DispatcherTest, LanesOfANewSubscriptionAreOpenedOnOwnedPartitions) {
  Sub("s", "a");
  Apply();
  Append(kA0, 5);
  Assign({kA0, kA1});
  OkAll();
  Sub("t", "a");
  offsets.FailFetches(3);
  Apply();
  ASSERT_TRUE(AwaitLanes());
  OkAll();
  EXPECT_EQ(Next("t", kA0), 5);
  EXPECT_EQ(Next("t", kA1), 0);
  EXPECT_EQ(Written().size(), 10u);
}

TEST_F(DispatcherTest, ARemovedSubscriptionIsCommittedAndComesBackWhereItWas) {
  Sub("s", "a").max_in_flight = 1;
  Apply();
  Append(kA0, 5);
  Assign({kA0});
  for (int i = 0; i < 3; ++i) {
    for (auto& sender : senders) {
      if (!sender->pending.empty()) sender->Ok();
    }
    world.RunReady();
  }
  dispatcher->SetDrainLimit(milliseconds(0));
  RemoveSub("s");
  Apply();
  ASSERT_TRUE(AwaitDrops({"s", kA0}, 1));
  EXPECT_EQ(offsets.stored({"s", kA0}), 3);
  EXPECT_EQ(pending(), 0u);
  Append(kA0, 1);
  EXPECT_EQ(pending(), 0u);
  Sub("s", "a");
  Apply();
  ASSERT_TRUE(AwaitLanes());
  OkAll();
  EXPECT_EQ(Next("s", kA0), 6);
}

TEST_F(DispatcherTest, RemovedAndAddedAgainAtOnce) {
  dispatcher->SetDrainLimit(milliseconds(0));
  Sub("s", "a");
  Apply();
  Append(kA0, 5);
  Assign({kA0});
  for (int i = 1; i <= 20; ++i) {
    OkAll();
    const auto kept = snapshot.subscriptions;
    RemoveSub("s");
    dispatcher->Apply(std::make_shared<const config::Snapshot>(snapshot));
    snapshot.subscriptions = kept;
    dispatcher->Apply(std::make_shared<const config::Snapshot>(snapshot));
    ASSERT_TRUE(AwaitDrops({"s", kA0}, i));
    ASSERT_TRUE(AwaitLanes());
    Append(kA0, 2);
  }
  OkAll();
  const std::set<std::string> distinct = [&] {
    const auto written = Written();
    return std::set<std::string>(written.begin(), written.end());
  }();
  EXPECT_EQ(distinct.size(), 45u);
  EXPECT_EQ(Written().size(), 45u) << "the new lane starts where the old one ended";
}

TEST_F(DispatcherTest, AChangedTopicIsAnotherSubscription) {
  dispatcher->SetDrainLimit(milliseconds(0));
  Sub("s", "a");
  Apply();
  Append(kA0, 2);
  Append(kB0, 3);
  Assign({kA0});
  OkAll();
  Sub("s", "b");
  Apply();
  ASSERT_TRUE(AwaitDrops({"s", kA0}, 1));
  EXPECT_EQ(offsets.stored({"s", kA0}), 2);
  Revoke({kA0});
  Assign({kB0});
  OkAll();
  EXPECT_EQ(Next("s", kB0), 3);
  EXPECT_EQ(Next("s", kA0), std::nullopt);
}

TEST_F(DispatcherTest, ARevisionDuringAnAssignmentIsFollowed) {
  Sub("s", "a");
  Apply();
  Append(kA0, 3);
  offsets.FailFetches(2);
  int asked = 0;
  offsets.on_fetch = [&] {
    // On the membership's thread, between reading the subscriptions and opening their lanes.
    if (++asked == 3) {
      Sub("t", "a");
      RemoveSub("s");
      dispatcher->Apply(std::make_shared<const config::Snapshot>(snapshot));
    }
    world.Notify();
  };
  Assign({kA0});
  ASSERT_TRUE(AwaitLanes());
  OkAll();
  EXPECT_EQ(Next("t", kA0), 3);
  EXPECT_EQ(Next("s", kA0), std::nullopt);
  for (const auto& request : Written()) EXPECT_EQ(request.substr(0, 1), "t");
}

TEST_F(DispatcherTest, LostPartitionsStoreNothingAndEndAtOnce) {
  Sub("s", "a");
  Apply();
  Append(kA0, 3);
  Assign({kA0});
  for (auto& sender : senders) {
    if (!sender->pending.empty()) sender->Ok();
  }
  world.RunReady();
  const int before = offsets.updates();
  Revoke({kA0}, /*lost=*/true);
  EXPECT_EQ(pending(), 0u);
  EXPECT_EQ(offsets.updates(), before);
  EXPECT_EQ(offsets.stored({"s", kA0}), std::nullopt);
  EXPECT_FALSE(offsets.noted({"s", kA0}));
  EXPECT_EQ(memory->used, 0u);
}

TEST_F(DispatcherTest, AFlushThatFailsDoesNotHoldUpTheRebalance) {
  Sub("s", "a");
  Apply();
  Append(kA0, 3);
  Assign({kA0});
  OkAll();
  offsets.FailFlushes(true);
  Revoke({kA0});
  EXPECT_EQ(dispatcher->owned_partitions(), 0u);
  EXPECT_FALSE(offsets.noted({"s", kA0})) << "nothing is written for it any more";
}

TEST_F(DispatcherTest, PauseResumeAndMaxRateZeroActLive) {
  SetLimit("l", "100/s");
  Sub("s", "a").limit = "l";
  Sub("t", "a").limit = "l";
  Apply();
  Append(kA0, 10);
  Assign({kA0});
  world.Advance(seconds(3));
  OkAll();
  Sub("s").paused = true;
  Apply();
  Append(kA0, 10);
  world.Advance(seconds(2));
  OkAll();
  EXPECT_EQ(Next("s", kA0), 10);
  EXPECT_EQ(Next("t", kA0), 20);
  Sub("s").paused = false;
  SetLimit("l", "0");
  Apply();
  Append(kA0, 10);
  world.Advance(seconds(2));
  EXPECT_EQ(pending(), 0u);
  SetLimit("l", "100/s");
  Apply();
  world.Advance(seconds(3));
  OkAll();
  EXPECT_EQ(Next("s", kA0), 30);
  EXPECT_EQ(Next("t", kA0), 30);
}

TEST_F(DispatcherTest, AShareByPartitionBeginsWithTheCountsAndEndsWithThePartition) {
  snapshot.instances.reset();
  SetLimit("l", "10/s");
  Sub("s", "a").limit = "l";
  Sub("s").max_in_flight = 1'000;
  Apply();
  Append(kA0, 1'000);
  Append(kA1, 1'000);
  Assign({kA0, kA1});
  world.Advance(seconds(3));
  EXPECT_EQ(pending(), 0u) << "no counts, no share";
  dispatcher->OnPartitionCounts({{"a", 10}});
  world.Advance(seconds(10));
  const auto with_two = pending();
  EXPECT_GE(with_two, 16u);
  EXPECT_LE(with_two, 20u);
  dispatcher->SetDrainLimit(milliseconds(0));
  Revoke({kA0});
  const auto before = pending();
  world.Advance(seconds(10));
  EXPECT_GE(pending() - before, 9u);
  EXPECT_LE(pending() - before, 10u);
}

TEST_F(DispatcherTest, ViewsShowPositionsAndLogEnds) {
  Sub("s", "a");
  Apply();
  Append(kA0, 5);
  Assign({kA0});
  const auto views = dispatcher->Subscriptions();
  ASSERT_EQ(views.size(), 1u);
  ASSERT_EQ(views[0].lanes.size(), 1u);
  EXPECT_EQ(views[0].lanes[0].partition, kA0);
  EXPECT_EQ(views[0].lanes[0].log_end, 5);
  EXPECT_EQ(dispatcher->snapshot()->subscriptions.size(), 1u);
}

}  // namespace
}  // namespace posthorn::delivery
