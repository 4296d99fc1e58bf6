// What would stop a lane goes on in the retry topic, under the same promises.
#include <gmock/gmock.h>

#include "tests/unit/delivery/dispatcher_fixture.h"

namespace posthorn::delivery {
namespace {

using config::Ordering;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kLaneBound = 20;
constexpr auto kTick = milliseconds(250);
const TopicPartition kR0{"f.retry", 0};
const OffsetStore::Key kSource{"s", kA0};
const OffsetStore::Key kRetry{"s", kR0};

class ParkingTest : public ::testing::Test, protected DispatcherBench {
 protected:
  ParkingTest() : DispatcherBench("f.retry", kLaneBound) {
    dispatcher->SetDrainLimit(milliseconds(0));
    dispatcher->OnPartitionCounts({{"a", 1}, {"f.retry", 1}});
    auto& sub = Sub("s", "a");
    sub.max_in_flight = 1000;
    sub.backoff.initial = seconds(10);
    sub.backoff.multiplier = 1;
    sub.ttl = seconds(3'600);
  }
  void Start() {
    Apply();
    Assign({kA0, kR0});
  }
  void AppendKeys(const std::vector<std::string>& keys) {
    for (const auto& key : keys) Log(kA0)->Append("v", -1, key);
    if (feeds.count(kA0) != 0) feeds[kA0]->Wake();
    world.RunReady();
  }
  /// Answers everything in flight until nothing is any more: what `fails` holds for with 500.
  void AnswerAll(const std::function<bool(const test::WrittenRequest&)>& fails) {
    for (bool any = true; any;) {
      any = false;
      for (auto& sender : senders) {
        while (!sender->pending.empty()) {
          any = true;
          if (fails(sender->pending.front().request)) {
            sender->Fail();
          } else {
            sender->Ok();
          }
          world.RunReady();
        }
      }
    }
  }
  void AnswerAllBut(std::set<Offset> failing) {
    AnswerAll([&](const auto& request) { return failing.count(request.offset) != 0; });
  }
  void Stored() {
    world.Advance(milliseconds(1250));
    offsets.WriteAll();
  }
  /// The keys' fate is known to the lanes that wait for it.
  void ProgressTold() {
    ASSERT_TRUE(world.Await([&] { return Parked().empty(); }));
  }
  /// The slots of keys that the source lane's position speaks of.
  std::vector<std::uint16_t> Parked() {
    world.Advance(milliseconds(1250));
    offsets.WriteAll();
    const auto position = offsets.stored_position(kSource);
    if (!position) return {};
    return std::get<CommitState>(DecodeCommitState(position->next, position->metadata)).parked.slots;
  }
  std::vector<std::pair<Offset, std::uint32_t>> WrittenAttempts() {
    std::vector<std::pair<Offset, std::uint32_t>> all;
    for (const auto& sender : senders) {
      for (const auto& w : sender->written) all.emplace_back(w.offset, w.attempt);
    }
    return all;
  }
  std::uint64_t Sum(Tally ShardStats::*member) {
    std::uint64_t sum = 0;
    for (const auto& view : dispatcher->Subscriptions()) {
      for (const auto& stats : view.shared->per_shard) sum += ((*stats).*member).value();
    }
    return sum;
  }
};

TEST_F(ParkingTest, AMessageThatStopsItsLaneGoesOnInTheRetryTopic) {
  Start();
  Append(kA0, kLaneBound + 5);
  AnswerAllBut({0, 3});
  EXPECT_EQ(Next("s", kA0), 0);
  EXPECT_THAT(retry.states, IsEmpty());
  world.Advance(kTick);
  ASSERT_THAT(retry.states, SizeIs(2));
  EXPECT_EQ(retry.states[0].source_offset, 0);
  EXPECT_EQ(retry.states[1].source_offset, 3);
  EXPECT_THAT(retry.states, Each(AllOf(Field(&RetryState::subscription, "s"), Field(&RetryState::source, kA0),
                                       Field(&RetryState::attempts, 1U))));
  AnswerAllBut({});
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(kLaneBound + 5));
  EXPECT_EQ(Sum(&ShardStats::parked), 2U);
  EXPECT_EQ(Sum(&ShardStats::parked_here), 2U);
  EXPECT_EQ(pending(), 0U) << "they are not due";
  world.Advance(seconds(10));
  EXPECT_EQ(pending(), 2U);
  OkAll();
  EXPECT_THAT(WrittenAttempts(), AllOf(Contains(std::pair(Offset{0}, 2U)), Contains(std::pair(Offset{3}, 2U))));
  EXPECT_THAT(Written(), Contains("s a/0@3")) << "it is sent as what it was";
  EXPECT_EQ(Sum(&ShardStats::parked_here), 0U);
  Stored();
  EXPECT_EQ(offsets.stored(kRetry), 2);
  EXPECT_EQ(offsets.stored(kSource), static_cast<Offset>(kLaneBound + 5));
}

TEST_F(ParkingTest, ADeadEndpointParksNothing) {
  Start();
  Append(kA0, kLaneBound * 3);
  AnswerAll([](const auto&) { return true; });
  for (int i = 0; i < 20; ++i) {
    world.Advance(seconds(1));
    AnswerAll([](const auto&) { return true; });
  }
  EXPECT_THAT(retry.states, IsEmpty());
  for (int i = 0; i < 40; ++i) {  // a probe first, then more and more
    world.Advance(std::chrono::milliseconds(500));
    OkAll();
  }
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(kLaneBound * 3));
}

TEST_F(ParkingTest, AnEndpointThatDiesParksOnlyWhatFailedWhileItLived) {
  Start();
  Append(kA0, kLaneBound / 2);
  AnswerAllBut({0});
  Append(kA0, kLaneBound);
  AnswerAll([](const auto&) { return true; });
  for (int i = 0; i < 20; ++i) {
    world.Advance(seconds(1));
    AnswerAll([](const auto&) { return true; });
  }
  EXPECT_THAT(retry.states, IsEmpty()) << "more fail than got through";
}

TEST_F(ParkingTest, TtlAndAttemptsGoOn) {
  Sub("s").max_attempts = 3;
  Start();
  Append(kA0, kLaneBound);
  AnswerAllBut({0});
  world.Advance(kTick);
  AnswerAllBut({0});
  for (int i = 0; i < 2; ++i) {
    world.Advance(seconds(10));
    AnswerAllBut({0});
  }
  ASSERT_THAT(dead_letters.written, SizeIs(1));
  const auto& letter = dead_letters.written[0];
  EXPECT_EQ(letter.attempts, 3U);
  EXPECT_EQ(letter.reason, DeadLetterReason::kAttempts);
  EXPECT_EQ(letter.partition, kA0);
  EXPECT_EQ(letter.record->source_offset(), 0);
  EXPECT_EQ(Sum(&ShardStats::parked_here), 0U);

  Sub("s").max_attempts.reset();
  Sub("s").ttl = seconds(15);
  Apply();
  const auto first = static_cast<Offset>(kLaneBound);
  Append(kA0, kLaneBound);
  AnswerAllBut({first});
  world.Advance(kTick);
  world.Advance(seconds(10));
  AnswerAllBut({first});
  ASSERT_THAT(dead_letters.written, SizeIs(2)) << "the next attempt would come 20 s after it was first seen";
  EXPECT_EQ(dead_letters.written[1].reason, DeadLetterReason::kExpired);
}

TEST_F(ParkingTest, WhatCannotBeWrittenStaysAndIsTriedAgain) {
  retry.mode = test::FakeRetrySink::Mode::kFail;
  Start();
  Append(kA0, kLaneBound);
  AnswerAllBut({0});
  world.Advance(seconds(5));
  EXPECT_EQ(Next("s", kA0), 0);
  EXPECT_GE(Sum(&ShardStats::parking_failures), 2U);
  retry.mode = test::FakeRetrySink::Mode::kWrite;
  world.Advance(seconds(2));
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(kLaneBound));
}

TEST_F(ParkingTest, TheSourceIsNotFinishedBeforeTheRecordIsAcknowledged) {
  retry.mode = test::FakeRetrySink::Mode::kHold;
  Start();
  Append(kA0, kLaneBound);
  AnswerAllBut({0});
  world.Advance(kTick);
  ASSERT_THAT(retry.held, SizeIs(1));
  EXPECT_EQ(Next("s", kA0), 0);
  retry.Answer(true, true);
  world.RunReady();
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(kLaneBound));
}

TEST_F(ParkingTest, AKeyFollowsItsParkedMessageUntilThatIsFinished) {
  Sub("s").ordering = Ordering::kKey;
  Start();
  AppendKeys({"k", "k", "k"});
  AppendKeys(std::vector<std::string>(kLaneBound - 3, "other"));
  const auto poison = [](const auto& request) { return request.offset == 0; };
  AnswerAll(poison);
  world.Advance(kTick);
  AppendKeys({"k", "other"});
  AnswerAll(poison);
  EXPECT_THAT(retry.states, ElementsAre(Field(&RetryState::source_offset, 0), Field(&RetryState::source_offset, 1),
                                        Field(&RetryState::source_offset, 2),
                                        Field(&RetryState::source_offset, static_cast<Offset>(kLaneBound))));
  EXPECT_EQ(Next("s", kA0), static_cast<Offset>(kLaneBound) + 2);
  EXPECT_THAT(Parked(), SizeIs(1));
  world.Advance(seconds(10));
  AnswerAll([](const auto&) { return false; });
  EXPECT_EQ(Sum(&ShardStats::parked_here), 0U);
  std::vector<Offset> order;
  for (const auto& sender : senders) {
    for (const auto& w : sender->written) {
      if (w.offset < 3 || w.offset == static_cast<Offset>(kLaneBound)) order.push_back(w.offset);
    }
  }
  EXPECT_THAT(order, ElementsAre(0, 0, 1, 2, static_cast<Offset>(kLaneBound)));
  ProgressTold();
  AppendKeys({"k"});
  EXPECT_EQ(pending(), 1U) << "it goes the short way again";
  OkAll();
  EXPECT_THAT(retry.states, SizeIs(4));
}

TEST_F(ParkingTest, TheNextOwnerKnowsWhichKeysAreParked) {
  Sub("s").ordering = Ordering::kKey;
  Start();
  AppendKeys({"k"});
  AppendKeys(std::vector<std::string>(kLaneBound, "other"));
  const auto poison = [](const auto& request) { return request.offset == 0; };
  AnswerAll(poison);
  world.Advance(kTick);
  AnswerAll(poison);
  EXPECT_THAT(Parked(), SizeIs(1));
  Revoke({kA0, kR0}, /*lost=*/true);
  Assign({kA0, kR0});
  AppendKeys({"k", "other"});
  AnswerAll(poison);
  EXPECT_THAT(retry.states, SizeIs(2)) << "it follows";
  world.Advance(seconds(10));
  OkAll();
  ProgressTold();
  AppendKeys({"k"});
  EXPECT_EQ(pending(), 1U);
}

TEST_F(ParkingTest, WhatIsNoneOfOursIsPassedOver) {
  Apply();
  Assign({kR0});
  test::FakeLog::Entry garbage;
  garbage.headers = {{"posthorn-retry", "99"}};
  retry.append(0, garbage);
  RetryState other = StartAnew("another", {"a", 0}, 5, -1);
  test::FakeLog::Entry entry;
  entry.headers = EncodeRetryHeaders(other, {});
  retry.append(0, entry);
  entry.headers = EncodeRetryHeaders(StartAnew("s", {"b", 3}, 41, 1), {});
  retry.append(0, entry);
  retry.append(0, {});
  world.RunReady();
  EXPECT_THAT(retry.ignored, ElementsAre(RetryFault::kOtherVersion, RetryFault::kForeign));
  EXPECT_EQ(pending(), 1U);
  OkAll();
  EXPECT_THAT(Written(), ElementsAre("s b/3@41"));
  Stored();
  EXPECT_EQ(offsets.stored(kRetry), 4);
}

TEST_F(ParkingTest, ALetterThatIsDeliveredAgainHasAFreshTtl) {
  Sub("s").ttl_from = config::TtlFrom::kPublished;
  Sub("s").start = config::Start::kLatest;
  test::FakeLog::Entry entry;
  entry.headers = EncodeRetryHeaders(StartAnew("s", kA0, 7, 1), {});
  retry.append(0, entry);
  Apply();
  Assign({kR0});
  ASSERT_EQ(pending(), 1U) << "`start: latest` does not speak of the retry topic";
  OkAll();
  EXPECT_THAT(WrittenAttempts(), ElementsAre(std::pair(Offset{7}, 1U)));
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(ParkingTest, ASubscriptionIsAtHomeInOnePartition) {
  dispatcher->OnPartitionCounts({{"a", 1}, {"f.retry", 4}});
  Apply();
  EXPECT_THAT(subscribed.back(), Contains("f.retry"));
  const TopicPartition home{"f.retry", RetryPartition("s", 4)};
  offsets.Store({"s", {"f.retry", (home.partition + 1) % 4}}, 3);  // from a time with other numbers
  std::vector<TopicPartition> all{kA0};
  for (std::int32_t p = 0; p < 4; ++p) all.push_back({"f.retry", p});
  Assign(all);
  const auto views = dispatcher->Subscriptions();
  ASSERT_THAT(views, SizeIs(1));
  EXPECT_THAT(views[0].lanes, ElementsAre(Field(&Dispatcher::LaneView::partition, kA0)));
  EXPECT_THAT(views[0].retry_lanes, SizeIs(2));
  EXPECT_THAT(views[0].retry_lanes, Contains(Field(&Dispatcher::LaneView::partition, home)));
  EXPECT_EQ(memory->parts.load(), 1U) << "those of the retry topic take no part from the others";
}

TEST_F(ParkingTest, WithoutARetryTopicTheLaneWaits) {
  world.RunReady();
  for (auto& shard : shards) shard->SetRetryPartitions(0);
  Start();
  Append(kA0, kLaneBound + 5);
  AnswerAllBut({0});
  world.Advance(seconds(5));
  EXPECT_THAT(retry.states, IsEmpty());
  EXPECT_EQ(Next("s", kA0), 0);
}

TEST_F(ParkingTest, AFullPartOfTheMemoryParksToo) {
  Start();
  Append(kA0, 4);
  AnswerAllBut({0});
  world.Advance(seconds(1));
  EXPECT_THAT(retry.states, IsEmpty());
  // Held elsewhere: the worker has no room left.
  MemoryAccount elsewhere(memory);
  elsewhere.Add(std::size_t{64} << 20);
  world.Advance(kTick);
  EXPECT_THAT(retry.states, SizeIs(1));
  elsewhere.Release(std::size_t{64} << 20);
}

TEST(ParkedKeysTest, OneSlotOfTwoKeysEndsWithTheLast) {
  ParkedKeys keys;
  EXPECT_FALSE(keys.Holds("k"));
  keys.Add("k", 5);
  keys.Add("l", 9);
  EXPECT_TRUE(keys.Holds("k"));
  ParkedKeys taken_over(keys.ForNextOwner());
  EXPECT_TRUE(taken_over.Holds("k") && taken_over.Holds("l"));
  EXPECT_EQ(taken_over.ForNextOwner(), keys.ForNextOwner());

  const RetryProgress some{3, {{5, 6}}, 100};
  EXPECT_TRUE(keys.Release(some));
  EXPECT_FALSE(keys.Holds("k"));
  EXPECT_TRUE(keys.Holds("l"));
  EXPECT_FALSE(taken_over.Release(some)) << "nobody knows which of them that was";
  EXPECT_TRUE(taken_over.Release({10, {}, 100}));
  EXPECT_TRUE(taken_over.empty());
  EXPECT_TRUE(keys.Release({0, {}, 7})) << "the topic was made anew";
  EXPECT_TRUE(keys.empty());
}

}  // namespace
}  // namespace posthorn::delivery
