// The subscriptions' topic as a source, on the embedded broker. What needs transactions, deletion or timestamps is in
// real_documents_test.cc.
#include "worker/kafka/kafka_topic_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/document_topic.h"
#include "worker/kafka/embedded_broker.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using config::Changed;
using config::Failed;
using config::RawSnapshot;
using config::Stopped;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class KafkaTopicSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    broker_ = EmbeddedBroker::Create(error);
    ASSERT_NE(broker_, nullptr) << error;
    ASSERT_TRUE(broker_->CreateTopic("configs", 1, error)) << error;
    ASSERT_TRUE(broker_->CreateTopic("several", 3, error)) << error;
    producer_ = Producer::Create(Config(), error);
    ASSERT_NE(producer_, nullptr) << error;
    source_ = KafkaTopicSource::Create(Config(), "configs", error);
    ASSERT_NE(source_, nullptr) << error;
  }
  ClientConfig Config() { return ClientConfig::ForSubscriptions(TestDeployment(broker_->bootstrap(), "fleet"), true); }

  void Write(std::optional<std::string> key, std::optional<std::string> value) {
    OutgoingRecord record;
    record.topic = "configs";
    record.partition = 0;
    if (key) record.key = *key;
    if (value) record.value = *value;
    ASSERT_TRUE(producer_->Send(record)) << producer_->last_error();
    ASSERT_TRUE(producer_->Flush(10s)) << producer_->last_error();
  }
  /// The next snapshot that differs from the last one.
  RawSnapshot AwaitChange() {
    for (int i = 0; i < 20; ++i) {
      auto outcome = source_->Next(have_, 1s, {});
      if (auto* changed = std::get_if<Changed>(&outcome)) {
        have_ = changed->snapshot.revision;
        return std::move(changed->snapshot);
      }
    }
    ADD_FAILURE() << "no change within 20 s";
    return {};
  }
  std::unique_ptr<EmbeddedBroker> broker_;
  std::unique_ptr<Producer> producer_;
  std::unique_ptr<KafkaTopicSource> source_;
  std::string have_;
};

TEST_F(KafkaTopicSourceTest, ReadsToTheEndThenFollows) {
  Write("a.yaml", "one");
  Write("b.yaml", "two");
  Write("a.yaml", "three");
  const auto first = AwaitChange();
  EXPECT_THAT(first.files, ElementsAre(Pair("a.yaml", "three"), Pair("b.yaml", "two")));
  EXPECT_EQ(first.number, "2");
  Write("b.yaml", std::nullopt);
  EXPECT_THAT(AwaitChange().files, ElementsAre(Pair("a.yaml", "three")));
  Write("b.yaml", "two");
  const auto back = AwaitChange();
  EXPECT_EQ(back.revision, first.revision);  // a digest of what there is
  EXPECT_EQ(back.number, "4");
  EXPECT_TRUE(std::holds_alternative<config::Unchanged>(source_->Next(have_, 0ms, {})));
}

TEST_F(KafkaTopicSourceTest, ATopicThatNeverHeldADocumentHasNoRevision) {
  const auto outcome = source_->Next("", 30s, {});
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome));
  EXPECT_THAT(std::get<Failed>(outcome).why, HasSubstr("holds no document yet"));
  Write("user-17", "foreign");
  Write("a.yaml", "one");
  EXPECT_THAT(AwaitChange().files, ElementsAre(Pair("a.yaml", "one")));
  Write("a.yaml", std::nullopt);  // the wish to have none
  EXPECT_THAT(AwaitChange().files, IsEmpty());
}

TEST_F(KafkaTopicSourceTest, ForeignRecordsAreLeftOutAndCounted) {
  Write(std::nullopt, "no key");
  Write("user-17", "no document");
  Write("", "empty");
  Write("../a.yaml", "no name");
  Write(".a.yaml", "hidden");
  Write("a.yaml", "one");
  const auto first = AwaitChange();
  EXPECT_THAT(first.files, ElementsAre(Pair("a.yaml", "one")));
  EXPECT_EQ(source_->Ignored(), 5u);
  Write("user-17", "still none");
  Write("a.yaml", "two");
  EXPECT_THAT(AwaitChange().files, ElementsAre(Pair("a.yaml", "two")));
  EXPECT_EQ(source_->Ignored(), 6u);
}

TEST_F(KafkaTopicSourceTest, StopsAtOnceWhateverItWaitsFor) {
  Write("a.yaml", "one");
  AwaitChange();
  std::stop_source stop;
  std::optional<config::Outcome> outcome;
  std::thread waiting([&] { outcome = source_->Next(have_, 1h, stop.get_token()); });
  stop.request_stop();
  waiting.join();
  EXPECT_TRUE(std::holds_alternative<Stopped>(*outcome));
  broker_->SetDown(true);
  EXPECT_TRUE(std::holds_alternative<Stopped>(source_->Next("", 1h, stop.get_token())));
}

TEST_F(KafkaTopicSourceTest, ABrokerThatIsAwayFailsAndTheDocumentsStay) {
  Write("a.yaml", "one");
  const auto first = AwaitChange();
  broker_->SetDown(true);
  config::Outcome outcome = source_->Next(have_, 30s, {});
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome));
  EXPECT_THAT(std::get<Failed>(outcome).why, HasSubstr("Kafka does not answer"));
  EXPECT_TRUE(std::get<Failed>(outcome).source_waits);
  // Whoever asks for everything still has the last good revision.
  outcome = source_->Next("", 30s, {});
  ASSERT_TRUE(std::holds_alternative<Changed>(outcome));
  EXPECT_EQ(std::get<Changed>(outcome).snapshot.files, first.files);
  broker_->SetDown(false);
  EXPECT_TRUE(std::holds_alternative<config::Unchanged>(source_->Next(have_, 30s, {})));
  Write("a.yaml", "two");
  EXPECT_THAT(AwaitChange().files, ElementsAre(Pair("a.yaml", "two")));
}

TEST_F(KafkaTopicSourceTest, SeveralPartitionsAreNoTopicOfDocuments) {
  std::string error;
  source_ = KafkaTopicSource::Create(Config(), "several", error);
  const auto outcome = source_->Next("", 30s, {});
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome));
  EXPECT_THAT(std::get<Failed>(outcome).why, HasSubstr("has 3 partitions"));
  EXPECT_EQ(ReadDocumentTopic(Config(), "several", 5s, error), std::nullopt);
  EXPECT_THAT(error, HasSubstr("has 3 partitions"));
}

TEST_F(KafkaTopicSourceTest, TheLogTellsWhatIsInForceAndWhatWas) {
  Write("a.yaml", "one");
  Write("b.yaml", "two");
  Write("a.yaml", std::nullopt);
  Write("x", "foreign");
  Write("b.yaml", "three");
  std::string error;
  const auto log = ReadDocumentTopic(Config(), "configs", 5s, error);
  ASSERT_TRUE(log) << error;
  EXPECT_THAT(log->Documents(), ElementsAre(Pair("b.yaml", "three")));
  EXPECT_EQ(log->changes.size(), 4u);
  EXPECT_EQ(log->foreign, 1u);
  EXPECT_EQ(log->newest, 4);
  EXPECT_EQ(log->Find("a.yaml"), nullptr);
  ASSERT_NE(log->Find("b.yaml"), nullptr);
  EXPECT_EQ(log->Find("b.yaml")->offset, 4);
}

}  // namespace
}  // namespace posthorn::kafka
