// The room against librdkafka's embedded broker: everything that needs no real group coordinator and no admin requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/integration/kafka/embedded_fixture.h"
#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/dead_letter_producer.h"
#include "worker/kafka/fleet_topics.h"
#include "worker/kafka/producer.h"
#include "worker/kafka/reader_pool.h"
#include "worker/kafka/retry_producer.h"
#include "worker/runtime/clock.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::TopicPartition;
using testing::ElementsAre;
using testing::SizeIs;

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

TEST_F(EmbeddedTest, StopsWhileAChangeOfTopicsIsPutOff) {
  std::string error;
  ASSERT_TRUE(broker_->CreateTopic("invoices", 1, error)) << error;
  ASSERT_TRUE(broker_->CreateTopic("letters", 1, error)) << error;
  RecordingWorker worker(Config(), {"orders"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  const auto seen = [&](std::size_t topics) {
    return worker.WaitFor([&] {
      const auto events = worker.Events();
      return std::any_of(events.begin(), events.end(), [&](const auto& e) { return e.counts.size() == topics; });
    });
  };
  worker.membership().Subscribe({"orders", "invoices"});  // joins anew, which takes a session's length
  ASSERT_TRUE(seen(2));
  worker.membership().Subscribe({"orders", "invoices", "letters"});
  ASSERT_TRUE(seen(3));
  worker.WaitFor([] { return false; }, 300ms);  // librdkafka has it
  worker.Stop();
  EXPECT_THAT(worker.Owned(), SizeIs(0));
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
