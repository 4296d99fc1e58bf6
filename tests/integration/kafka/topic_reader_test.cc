// Reading parts of a log once, and questions to the cluster, on the embedded broker.
#include "worker/kafka/topic_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/cluster_questions.h"
#include "worker/kafka/embedded_broker.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::TopicPartition;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class TopicReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    broker_ = EmbeddedBroker::Create(error);
    ASSERT_NE(broker_, nullptr) << error;
    ASSERT_TRUE(broker_->CreateTopic("letters", 2, error)) << error;
    const auto producer = Producer::Create(Config(), error);
    ASSERT_NE(producer, nullptr) << error;
    for (int i = 0; i < 300; ++i) {
      const std::string value = "v" + std::to_string(i);
      OutgoingRecord record;
      record.topic = "letters";
      record.partition = i % 3 == 0 ? 1 : 0;
      record.value = value;
      record.headers = {{"number", std::to_string(i)}};
      ASSERT_TRUE(producer->Send(record)) << producer->last_error();
    }
    ASSERT_TRUE(producer->Flush(10s)) << producer->last_error();
  }
  ClientConfig Config() { return ClientConfig::From(TestDeployment(broker_->bootstrap(), "fleet"), true); }

  std::unique_ptr<EmbeddedBroker> broker_;
};

TEST_F(TopicReaderTest, ReadsWhatItIsToldToInOrderAndEnds) {
  std::map<std::int32_t, std::vector<Offset>> offsets;
  std::vector<std::string> values;
  std::string error;
  const auto visit = [&](const TopicPartition& partition, const delivery::RecordPtr& record) {
    offsets[partition.partition].push_back(record->offset());
    if (partition.partition == 1) values.emplace_back(*record->value());
    EXPECT_EQ("v" + std::string(*record->FindHeader("number")->value), *record->value());
    return true;
  };
  ASSERT_TRUE(ReadSections(Config(), {{{"letters", 0}, 0, 200}, {{"letters", 1}, 40, 43}}, 10s, visit, error)) << error;
  ASSERT_THAT(offsets[0], SizeIs(200));
  for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(offsets[0][i], static_cast<Offset>(i));
  EXPECT_THAT(values, ElementsAre("v120", "v123", "v126"));
}

TEST_F(TopicReaderTest, EndsWhenTheVisitorHasEnoughOrNothingIsThere) {
  int visited = 0;
  std::string error;
  const auto visit = [&](const TopicPartition&, const delivery::RecordPtr&) { return ++visited < 5; };
  EXPECT_TRUE(ReadSections(Config(), {{{"letters", 0}, 0, 200}}, 10s, visit, error)) << error;
  EXPECT_EQ(visited, 5);
  EXPECT_TRUE(ReadSections(Config(), {}, 10s, visit, error));
  EXPECT_TRUE(ReadSections(Config(), {{{"letters", 0}, 7, 7}}, 10s, visit, error));
  // The log ends before: its last messages may be gone.
  EXPECT_TRUE(ReadSections(
      Config(), {{{"letters", 1}, 98, 5'000}}, 10s,
      [&](const TopicPartition&, const delivery::RecordPtr&) { return ++visited < 1'000; }, error))
      << error;
  EXPECT_EQ(visited, 7);
}

TEST_F(TopicReaderTest, GivesUpWhenNothingComes) {
  broker_->SetDown(true);
  std::string error;
  EXPECT_FALSE(ReadSections(
      Config(), {{{"letters", 0}, 0, 200}}, 300ms, [](const auto&, const auto&) { return true; }, error));
  EXPECT_THAT(error, HasSubstr("reading letters"));
}

TEST_F(TopicReaderTest, TheClusterTellsPartitionsAndBounds) {
  std::string error;
  const auto cluster = ClusterQuestions::Create(Config(), 5s, error);
  ASSERT_NE(cluster, nullptr) << error;
  EXPECT_EQ(cluster->Partitions("letters"), 2);
  EXPECT_EQ(cluster->Bounds({"letters", 0}), std::pair(Offset{0}, Offset{200})) << cluster->last_error();
  broker_->HaveNoLeaders(3);
  EXPECT_EQ(cluster->Bounds({"letters", 0}), std::pair(Offset{0}, Offset{200})) << cluster->last_error();
  broker_->SetDown(true);
  const auto impatient = ClusterQuestions::Create(Config(), 200ms, error);
  EXPECT_FALSE(impatient->Partitions("letters"));
  EXPECT_THAT(impatient->last_error(), HasSubstr("the partitions of letters"));
}

}  // namespace
}  // namespace posthorn::kafka
