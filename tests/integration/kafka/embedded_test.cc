// The room against librdkafka's embedded broker: everything that needs no real group coordinator and no admin requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/dead_letter_producer.h"
#include "worker/kafka/embedded_broker.h"
#include "worker/kafka/fleet_topics.h"
#include "worker/kafka/offset_store.h"
#include "worker/kafka/reader_pool.h"
#include "worker/kafka/producer.h"
#include "worker/kafka/retry_producer.h"
#include "worker/runtime/clock.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::TopicPartition;
using testing::ElementsAre;
using testing::SizeIs;

class EmbeddedTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    broker_ = EmbeddedBroker::Create(error);
    ASSERT_NE(broker_, nullptr) << error;
    ASSERT_TRUE(broker_->CreateTopic("orders", 2, error)) << error;
  }
  ClientConfig Config(const std::string& fleet = "fleet") {
    auto deployment = TestDeployment(broker_->bootstrap(), fleet);
    // The embedded coordinator waits for a session's length at each rebalance.
    deployment.kafka["session.timeout.ms"] = "4000";
    deployment.kafka["heartbeat.interval.ms"] = "300";
    deployment.kafka["max.poll.interval.ms"] = "10000";
    return ClientConfig::From(deployment, true);
  }
  void Produce(const std::string& topic, std::int32_t partition, int from, int to) {
    std::string error;
    const auto producer = Producer::Create(Config(), error);
    ASSERT_NE(producer, nullptr) << error;
    for (int i = from; i < to; ++i) {
      const std::string value = "v" + std::to_string(i);
      OutgoingRecord record;
      record.topic = topic;
      record.partition = partition;
      record.value = value;
      ASSERT_TRUE(producer->Send(record)) << producer->last_error();
    }
    ASSERT_TRUE(producer->Flush(10s)) << producer->last_error();
  }
  std::unique_ptr<EmbeddedBroker> broker_;
};

std::vector<delivery::Offset> Offsets(const std::vector<delivery::RecordPtr>& records) {
  std::vector<delivery::Offset> offsets;
  for (const auto& record : records) offsets.push_back(record->offset());
  return offsets;
}

std::vector<delivery::Offset> Range(delivery::Offset from, delivery::Offset to) {
  std::vector<delivery::Offset> offsets;
  for (auto i = from; i < to; ++i) offsets.push_back(i);
  return offsets;
}

TEST_F(EmbeddedTest, JoinsReadsSeeksAndStops) {
  Produce("orders", 0, 0, 1000);
  std::string error;
  const auto producer = Producer::Create(Config(), error);
  OutgoingRecord rich;
  rich.topic = "orders";
  rich.partition = 1;
  rich.key = "the key";
  rich.headers = {{"one", "1"}, {"none", std::nullopt}, {"empty", ""}};
  rich.timestamp_ms = 1'700'000'000'123;
  ASSERT_TRUE(producer->Send(rich));
  rich.key = std::nullopt;
  rich.value = "";
  rich.headers.clear();
  ASSERT_TRUE(producer->Send(rich));
  ASSERT_TRUE(producer->Flush(10s));

  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  EXPECT_TRUE(worker.membership().Confirmed());
  EXPECT_TRUE(worker.membership().state().joined);
  EXPECT_THAT(worker.membership().state().owned, SizeIs(2));
  ASSERT_TRUE(worker.WaitForRecords({"orders", 0}, 1000));
  ASSERT_TRUE(worker.WaitForRecords({"orders", 1}, 2));
  EXPECT_EQ(Offsets(worker.Records({"orders", 0})), Range(0, 1000));

  const auto records = worker.Records({"orders", 1});
  EXPECT_EQ(records[0]->key(), "the key");
  EXPECT_EQ(records[0]->value(), std::nullopt);
  EXPECT_EQ(records[0]->timestamp_ms(), 1'700'000'000'123);
  ASSERT_THAT(records[0]->headers(), SizeIs(3));
  EXPECT_EQ(records[0]->headers()[0].name, "one");
  EXPECT_EQ(records[0]->headers()[0].value, "1");
  EXPECT_EQ(records[0]->headers()[1].value, std::nullopt);
  EXPECT_EQ(records[0]->headers()[2].value, "");
  EXPECT_EQ(records[1]->key(), std::nullopt);
  EXPECT_EQ(records[1]->value(), "");

  const auto feed = worker.Feed({"orders", 0});
  EXPECT_EQ(feed->LogEnd(), 1000);
  EXPECT_TRUE(worker.WaitFor([&] {
    for (const auto& event : worker.Events())
      if (event.kind == RecordingWorker::Event::kCounts &&
          event.counts == std::vector<std::pair<std::string, std::int32_t>>{{"orders", 2}})
        return true;
    return false;
  }));

  for (const delivery::Offset target : {500, 3, 999, 0, 750}) {
    worker.SeekTo({"orders", 0}, target);
    ASSERT_TRUE(worker.WaitForRecords({"orders", 0}, static_cast<std::size_t>(1000 - target))) << target;
    EXPECT_EQ(Offsets(worker.Records({"orders", 0})), Range(target, 1000));
  }

  worker.Stop();
  EXPECT_THAT(worker.Owned(), SizeIs(0));
  EXPECT_EQ(worker.Events().back().kind, RecordingWorker::Event::kRevoked);
  EXPECT_FALSE(worker.membership().Confirmed());
  EXPECT_FALSE(worker.membership().state().joined);
  std::vector<delivery::RecordPtr> none;
  EXPECT_EQ(feed->Read(10, 1000, none), 0U);  // held longer than it lives: reads nothing
  worker.membership().Suspect();
}

TEST_F(EmbeddedTest, SeeksInTheMiddleOfReadingNeverLetAnEarlierMessageOut) {
  Produce("orders", 0, 0, 20'000);
  std::atomic<int> reads{0};
  RecordingWorker::Options options;
  options.on_read = [&](const TopicPartition&, std::size_t) { ++reads; };
  RecordingWorker worker(Config(), {"orders"}, options);
  const TopicPartition partition{"orders", 0};
  ASSERT_TRUE(worker.WaitForRecords(partition, 300));
  std::uint32_t seed = 1;
  for (int round = 0; round < 60; ++round) {
    seed = seed * 1'664'525 + 1'013'904'223;
    const delivery::Offset target = seed % 19'000;
    if (round % 5 == 4) {  // several at once: the last counts
      worker.OnReader([&] {});
      worker.SeekTo(partition, 1);
      worker.SeekTo(partition, 18'000);
    }
    worker.SeekTo(partition, target);
    const std::size_t enough = round % 3 == 0 ? 1 : 250;
    ASSERT_TRUE(worker.WaitForRecords(partition, enough)) << round;
    const auto offsets = Offsets(worker.Records(partition));
    ASSERT_EQ(offsets, Range(target, target + static_cast<delivery::Offset>(offsets.size()))) << round;
  }
}

TEST_F(EmbeddedTest, StartsWhereTheListenerSays) {
  Produce("orders", 0, 0, 50);
  RecordingWorker::Options options;
  options.start = [](const TopicPartition& partition) { return partition.partition == 0 ? 30 : 0; };
  RecordingWorker worker(Config(), {"orders"}, options);
  ASSERT_TRUE(worker.WaitForRecords({"orders", 0}, 20));
  EXPECT_EQ(Offsets(worker.Records({"orders", 0})), Range(30, 50));
}

TEST_F(EmbeddedTest, WakesForWhatComesLater) {
  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  for (int i = 0; i < 20; ++i) {
    Produce("orders", 1, i, i + 1);
    ASSERT_TRUE(worker.WaitForRecords({"orders", 1}, static_cast<std::size_t>(i + 1)));
  }
}

TEST_F(EmbeddedTest, ReadStopsAtItsBounds) {
  Produce("orders", 0, 0, 100);
  RecordingWorker worker(Config(), {"orders"}, {});
  worker.PauseReading(true);
  ASSERT_TRUE(worker.WaitForOwned(2));
  const auto feed = worker.Feed({"orders", 0});
  std::vector<delivery::RecordPtr> some;
  ASSERT_TRUE(worker.WaitFor([&] {
    worker.OnReader([&] { feed->Read(1, 1, some); });
    return !some.empty();
  }));
  worker.OnReader([&] {
    EXPECT_EQ(feed->Read(5, 1 << 20, some), 5U);
    EXPECT_EQ(feed->Read(50, some[0]->memory() * 3, some), 3U);
  });
  EXPECT_EQ(Offsets(some), Range(0, 9));
}

// ---- readers beside the group

/// Reads one feed, waiting for its wake-ups.
class OneReader {
 public:
  explicit OneReader(std::shared_ptr<delivery::PartitionFeed> feed) : feed_(std::move(feed)) {
    feed_->OnReadable([this] {
      const std::lock_guard lock(mutex_);
      readable_ = true;
      changed_.notify_one();
    });
  }
  ~OneReader() { feed_.reset(); }
  /// The offsets of the next `count` messages; fewer after 20 s.
  std::vector<delivery::Offset> Next(std::size_t count) {
    std::vector<delivery::RecordPtr> records;
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (records.size() < count) {
      if (feed_->Read(count - records.size(), std::size_t{1} << 20, records) > 0) continue;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, deadline, [this] { return readable_; })) break;
      readable_ = false;
    }
    return Offsets(records);
  }
  delivery::PartitionFeed& feed() { return *feed_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool readable_ = false;
  std::shared_ptr<delivery::PartitionFeed> feed_;
};

TEST_F(EmbeddedTest, ReadersOfTheirOwnStandWhereTheyWereOpened) {
  Produce("orders", 0, 0, 1000);
  Produce("orders", 1, 0, 100);
  KafkaReaderPool pool(Config(), {});
  OneReader far(pool.Open({"orders", 0}, 10));
  OneReader near(pool.Open({"orders", 0}, 990));
  OneReader other(pool.Open({"orders", 1}, 0));
  EXPECT_EQ(far.Next(990), Range(10, 1000));
  EXPECT_EQ(near.Next(10), Range(990, 1000));
  EXPECT_EQ(other.Next(100), Range(0, 100));
  EXPECT_EQ(pool.state().clients, 2u) << "a client reads each partition once";
  EXPECT_EQ(pool.state().readers, 3u);
  Produce("orders", 0, 1000, 1010);
  EXPECT_EQ(far.Next(10), Range(1000, 1010));
  EXPECT_EQ(near.Next(10), Range(1000, 1010));
  EXPECT_EQ(far.feed().LogEnd(), 1010);
  far.feed().SeekTo(500);
  EXPECT_EQ(far.Next(510), Range(500, 1010));
}

TEST_F(EmbeddedTest, AReaderBeyondTheEndGoesOnAtTheEarliest) {
  Produce("orders", 0, 0, 20);
  KafkaReaderPool pool(Config(), {});
  OneReader reader(pool.Open({"orders", 0}, 1'000));
  EXPECT_EQ(reader.Next(20), Range(0, 20));
}

TEST_F(EmbeddedTest, ReadersAreOpenedAndLetGoAgainAndAgain) {
  Produce("orders", 0, 0, 50);
  KafkaReaderPool::Options options;
  options.idle = 0ms;
  KafkaReaderPool pool(Config(), options);
  for (int round = 0; round < 20; ++round) {
    const auto unread = pool.Open({"orders", 0}, 0);
    OneReader first(pool.Open({"orders", 0}, round));
    OneReader second(pool.Open({"orders", 1}, 0));
    EXPECT_EQ(first.Next(5), Range(round, round + 5));
  }
  OneReader last(pool.Open({"orders", 0}, 0));
  EXPECT_EQ(last.Next(50), Range(0, 50));
  EXPECT_LE(pool.state().clients, 2u);
}

TEST_F(EmbeddedTest, SubscribesLive) {
  std::string error;
  ASSERT_TRUE(broker_->CreateTopic("invoices", 1, error)) << error;
  Produce("invoices", 0, 0, 5);
  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  worker.membership().Subscribe({"orders", "invoices"});
  ASSERT_TRUE(worker.WaitForOwned(3));
  ASSERT_TRUE(worker.WaitForRecords({"invoices", 0}, 5));
  worker.membership().Subscribe({"invoices"});
  ASSERT_TRUE(worker.WaitFor([&] { return worker.Owned() == std::set<TopicPartition>{{"invoices", 0}}; }));
  worker.membership().Subscribe({});
  ASSERT_TRUE(worker.WaitForOwned(0));
  EXPECT_FALSE(worker.membership().state().subscribed);
}

TEST_F(EmbeddedTest, TwoMembersShareAndTakeOver) {
  Produce("orders", 0, 0, 10);
  Produce("orders", 1, 0, 10);
  RecordingWorker first(Config(), {"orders"}, {});
  ASSERT_TRUE(first.WaitForOwned(2));
  {
    RecordingWorker second(Config(), {"orders"}, {});
    ASSERT_TRUE(second.WaitForOwned(1));
    ASSERT_TRUE(first.WaitForOwned(1));
    EXPECT_NE(first.Owned(), second.Owned());
    ASSERT_TRUE(second.WaitForRecords(*second.Owned().begin(), 10));
  }
  ASSERT_TRUE(first.WaitForOwned(2));
}

TEST_F(EmbeddedTest, ADoubtIsSettledWhileHeartbeatsGoOn) {
  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  worker.membership().Suspect();
  EXPECT_FALSE(worker.membership().Confirmed());
  EXPECT_TRUE(worker.WaitFor([&] { return worker.membership().Confirmed(); }));
}

TEST_F(EmbeddedTest, StopsBeforeTheFirstAssignment) {
  for (const auto wait : {0ms, 300ms, 1500ms}) {
    RecordingWorker worker(Config("early" + std::to_string(wait.count())), {"orders"}, {});
    worker.WaitFor([] { return false; }, wait);
    worker.Stop();
    EXPECT_THAT(worker.Owned(), SizeIs(0));
  }
}

TEST_F(EmbeddedTest, NeverStartedAndNeverSubscribed) {
  std::string error;
  EXPECT_NE(Membership::Create(Config(), error), nullptr);
  RecordingWorker worker(Config(), {}, {});
  worker.Stop();
}

TEST_F(EmbeddedTest, GoesOnAfterTheBrokerWasAway) {
  Produce("orders", 0, 0, 10);
  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForRecords({"orders", 0}, 10));
  broker_->SetDown(true);
  ASSERT_TRUE(worker.WaitFor([&] { return !worker.membership().state().last_error.empty(); }));
  broker_->SetDown(false);
  Produce("orders", 0, 10, 20);
  ASSERT_TRUE(worker.WaitFor([&] {
    const auto records = worker.Records({"orders", 0});
    return !records.empty() && records.back()->offset() == 19;
  }));
}

class Guard final : public delivery::MembershipGuard {
 public:
  bool Confirmed() const override { return confirmed; }
  void Suspect() override { confirmed = false; }
  void OnConfirmed(std::function<void()> callback) override { callback_ = std::move(callback); }
  void Confirm() {
    confirmed = true;
    callback_();
  }
  std::atomic<bool> confirmed{true};

 private:
  std::function<void()> callback_;
};

bool Flushed(KafkaOffsetStore& store, const std::vector<delivery::OffsetStore::Key>& keys) {
  std::promise<bool> done;
  store.Flush(keys, [&](bool good) { done.set_value(good); });
  return done.get_future().get();
}

TEST_F(EmbeddedTest, OffsetsComeBackWithTheirMetadata) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  ASSERT_NE(store, nullptr) << error;
  const delivery::OffsetStore::Key a{"billing", {"orders", 0}};
  const delivery::OffsetStore::Key b{"billing", {"orders", 1}};
  const delivery::OffsetStore::Key c{"audit", {"orders", 0}};
  auto fetched = store->Fetch({a, b, c}, 5s);
  ASSERT_TRUE(fetched.has_value());
  EXPECT_THAT(*fetched, ElementsAre(std::nullopt, std::nullopt, std::nullopt));

  store->Update(a, {5, std::string(4096, 'x')}, true, true);
  store->Update(c, {7, ""}, false, true);
  store->Update(a, {6, "meta"}, true, true);
  ASSERT_TRUE(Flushed(*store, {a, b, c}));
  fetched = store->Fetch({c, a, b}, 5s);
  ASSERT_TRUE(fetched.has_value());
  EXPECT_THAT(*fetched, ElementsAre(delivery::Position{7, ""}, delivery::Position{6, "meta"}, std::nullopt));
  EXPECT_EQ(store->stats().waiting, 0U);
  EXPECT_GE(store->stats().requests, 2U);
  EXPECT_EQ(store->stats().failures, 0U);
}

TEST_F(EmbeddedTest, ChangesAreWrittenWithoutAFlush) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  RecordingWorker waiter(Config("other"), {}, {});
  for (int next = 1; next <= 3; ++next) {
    store->Update(key, {next, ""}, false, true);
    ASSERT_TRUE(waiter.WaitFor([&] {
      const auto fetched = store->Fetch({key}, 5s);
      return fetched && fetched->at(0) && fetched->at(0)->next == next;
    }));
  }
}

TEST_F(EmbeddedTest, WritesAreHeldWhileTheMembershipIsInDoubt) {
  Guard guard;
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  store->UseGuard(guard);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  guard.Suspect();
  store->Update(key, {3, ""}, true, true);
  std::promise<bool> done;
  auto future = done.get_future();
  store->Flush({key}, [&](bool good) { done.set_value(good); });
  EXPECT_EQ(future.wait_for(300ms), std::future_status::timeout);
  EXPECT_THAT(*store->Fetch({key}, 5s), ElementsAre(std::nullopt));
  guard.Confirm();
  EXPECT_TRUE(future.get());

  guard.Suspect();
  store->Update(key, {9, ""}, true, true);
  std::promise<bool> dropped;
  store->Flush({key}, [&](bool good) { dropped.set_value(good); });
  store->Drop({key});
  EXPECT_FALSE(dropped.get_future().get());
  guard.Confirm();
  EXPECT_TRUE(Flushed(*store, {key}));
  EXPECT_EQ(store->Fetch({key}, 5s)->at(0)->next, 3);
}

TEST_F(EmbeddedTest, WritesAreRepeatedWhenTheBrokerComesBack) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  store->Update(key, {1, ""}, true, true);
  ASSERT_TRUE(Flushed(*store, {key}));
  broker_->SetDown(true);
  store->Update(key, {2, ""}, true, true);
  EXPECT_EQ(store->Fetch({key}, 300ms), std::nullopt);
  broker_->SetDown(false);
  EXPECT_TRUE(Flushed(*store, {key}));
  EXPECT_EQ(store->Fetch({key}, 10s)->at(0)->next, 2);
}

TEST_F(EmbeddedTest, OffsetsAreAskedForAndWrittenAnewWhenAClientGetsNoAnswer) {
  std::string error;
  broker_ = EmbeddedBroker::Create(error, 2);
  ASSERT_NE(broker_, nullptr) << error;
  ASSERT_TRUE(broker_->CreateTopic("orders", 2, error)) << error;
  KafkaOffsetStore::Options options;
  options.patience = 300ms;
  // Only the first broker is known from the start: what the second keeps back does not keep the client from the first.
  auto deployment = TestDeployment(broker_->bootstrap().substr(0, broker_->bootstrap().find(',')), "fleet");
  const auto store = KafkaOffsetStore::Create(ClientConfig::From(deployment, true), options, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  store->Update(key, {1, ""}, true, true);
  ASSERT_TRUE(Flushed(*store, {key}));

  broker_->KeepAnswer("fleet.billing", EmbeddedBroker::Request::kWriteOffsets);
  store->Update(key, {2, ""}, true, true);
  EXPECT_TRUE(Flushed(*store, {key}));

  broker_->KeepAnswer("fleet.billing", EmbeddedBroker::Request::kFetchOffsets);
  EXPECT_EQ(store->Fetch({key}, 400ms), std::nullopt);
  delivery::OffsetStore::Fetched fetched;
  RecordingWorker waiter(Config("other"), {}, {});
  ASSERT_TRUE(waiter.WaitFor([&] { return (fetched = store->Fetch({key}, 400ms)).has_value(); }));
  EXPECT_EQ(fetched->at(0)->next, 2);
}

TEST_F(EmbeddedTest, TheStoreSurvivesAFlappingBroker) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  for (int round = 0; round < 30; ++round) {
    broker_->SetDown(true);
    for (int i = 0; i < 1 + round % 4; ++i) {
      store->Update(key, {round, ""}, true, true);
      EXPECT_EQ(store->Fetch({key}, std::chrono::milliseconds(10 + 37 * i)), std::nullopt);
    }
    broker_->SetDown(false);
    if (round % 3 == 0) {
      ASSERT_TRUE(Flushed(*store, {key}));
      EXPECT_EQ(store->Fetch({key}, 10s)->at(0)->next, round);
    }
  }
}

TEST_F(EmbeddedTest, BoundsOfAPartition) {
  Produce("orders", 1, 0, 17);
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  EXPECT_EQ(store->Bounds({"orders", 1}, 5s), std::pair(delivery::Offset{0}, delivery::Offset{17}));
  EXPECT_EQ(store->Bounds({"orders", 0}, 5s), std::pair(delivery::Offset{0}, delivery::Offset{0}));
}

TEST_F(EmbeddedTest, DeadLettersCarryTheOriginalAndTheReason) {
  std::string error;
  ASSERT_TRUE(broker_->CreateTopic("fleet.dead-letters", 1, error)) << error;
  const auto sink = KafkaDeadLetterSink::Create(Config(), error);
  ASSERT_NE(sink, nullptr) << error;
  const std::vector<delivery::HeaderView> headers{{"trace", "t1"}, {"none", std::nullopt}};
  delivery::Record::Parts parts;
  parts.offset = 41;
  parts.key = "k";
  parts.headers = &headers;
  delivery::DeadLetter letter;
  letter.record = delivery::Record::Copy(parts);
  letter.partition = {"orders", 7};
  letter.subscription = "billing";
  letter.reason = delivery::DeadLetterReason::kGone;
  letter.last_status = 410;
  std::promise<bool> done;
  sink->Write(letter, [&](bool good) { done.set_value(good); });
  ASSERT_TRUE(done.get_future().get());
  EXPECT_EQ(sink->stats().written, 1U);

  RecordingWorker worker(Config("reader"), {sink->topic()}, {});
  ASSERT_TRUE(worker.WaitForRecords({"fleet.dead-letters", 0}, 1));
  const auto record = worker.Records({"fleet.dead-letters", 0})[0];
  EXPECT_EQ(record->key(), "k");
  EXPECT_EQ(record->value(), std::nullopt);
  EXPECT_EQ(record->FindHeader("trace")->value, "t1");
  EXPECT_EQ(record->FindHeader("none")->value, std::nullopt);
  EXPECT_EQ(record->FindHeader("posthorn-reason")->value, "gone");
  EXPECT_EQ(record->FindHeader("posthorn-offset")->value, "41");
  EXPECT_EQ(record->FindHeader("posthorn-last-status")->value, "410");
}

TEST_F(EmbeddedTest, ParkedMessagesComeBackWithTheirState) {
  std::string error;
  ASSERT_TRUE(broker_->CreateTopic("fleet.retry", 2, error)) << error;
  const auto producer = MakeFleetProducer(Config(), {}, error);
  ASSERT_NE(producer, nullptr) << error;
  KafkaRetrySink sink(producer);
  EXPECT_EQ(sink.topic(), "fleet.retry");
  const std::vector<delivery::HeaderView> headers{{"trace", "t1"}, {"none", std::nullopt}};
  delivery::Record::Parts parts;
  parts.offset = 41;
  parts.timestamp_ms = 1'700'000'000'123;
  parts.key = "k";
  parts.value = "v";
  parts.headers = &headers;
  delivery::RetryState state;
  state.subscription = "billing";
  state.source = {"orders", 7};
  state.source_offset = 41;
  state.source_timestamp_ms = parts.timestamp_ms;
  state.attempts = 3;
  state.first_seen_ms = 1'700'000'001'000;
  const auto record = delivery::Record::Copy(parts);
  for (delivery::Offset expected = 0; expected < 3; ++expected) {
    std::promise<std::optional<delivery::Offset>> done;
    sink.Write(1, record, state, [&](std::optional<delivery::Offset> at) { done.set_value(at); });
    EXPECT_EQ(done.get_future().get(), expected);
  }

  RecordingWorker worker(Config("reader"), {sink.topic()}, {});
  ASSERT_TRUE(worker.WaitForRecords({"fleet.retry", 1}, 3));
  const auto back = delivery::FromRetryTopic(*worker.Records({"fleet.retry", 1})[2]);
  ASSERT_TRUE(std::holds_alternative<delivery::RecordPtr>(back));
  const auto& message = *std::get<delivery::RecordPtr>(back);
  ASSERT_NE(message.retry(), nullptr);
  EXPECT_EQ(*message.retry(), state);
  EXPECT_EQ(message.offset(), 2);
  EXPECT_EQ(message.source_offset(), 41);
  EXPECT_EQ(message.timestamp_ms(), parts.timestamp_ms);
  EXPECT_EQ(message.key(), "k");
  EXPECT_EQ(message.value(), "v");
  ASSERT_THAT(message.headers(), SizeIs(2));
  EXPECT_EQ(message.headers()[1].value, std::nullopt);
}

TEST_F(EmbeddedTest, ParkingThatCannotBeDoneIsAnswered) {
  std::string error;
  auto producer = MakeFleetProducer(Config(), {}, error);
  ASSERT_NE(producer, nullptr) << error;
  auto sink = std::make_unique<KafkaRetrySink>(std::move(producer));
  broker_->SetDown(true);
  std::atomic<int> answers{0};
  for (int i = 0; i < 10; ++i) {
    sink->Write(0, delivery::Record::Copy({}), {},
                [&](std::optional<delivery::Offset> at) { answers += at ? 100 : 1; });
  }
  sink.reset();
  EXPECT_EQ(answers, 10);
}

TEST_F(EmbeddedTest, DeadLettersThatCannotBeWrittenAreAnswered) {
  std::string error;
  auto sink = KafkaDeadLetterSink::Create(Config(), error);
  broker_->SetDown(true);
  delivery::DeadLetter letter;
  letter.record = delivery::Record::Copy({});
  letter.partition = {"orders", 7};
  std::atomic<int> answers{0};
  for (int i = 0; i < 10; ++i) sink->Write(letter, [&](bool good) { answers += good ? 100 : 1; });
  sink.reset();
  EXPECT_EQ(answers, 10);
}

}  // namespace
}  // namespace posthorn::kafka
