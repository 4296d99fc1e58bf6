// A topic of documents on a real Kafka: transactions, topics that are deleted and made anew, brokers' settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "config/sources/config_watch.h"
#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/client.h"
#include "worker/kafka/document_topic.h"
#include "worker/kafka/document_writer.h"
#include "worker/kafka/kafka_topic_source.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using config::Changed;
using config::Failed;
using testing::HasSubstr;
using testing::IsEmpty;
using Documents = std::map<std::string, std::string>;
using Result = DocumentWriter::Result;

class RealDocumentsTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* bootstrap = std::getenv("POSTHORN_TEST_KAFKA");
    ASSERT_NE(bootstrap, nullptr) << "tests/system/kafka_room.sh sets it";
    bootstrap_ = bootstrap;
    static std::random_device random;
    topic_ = std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "-" +
             std::to_string(random() % 1'000'000);
  }
  ClientConfig Config() { return ClientConfig::ForSubscriptions(TestDeployment(bootstrap_, topic_)); }

  void Make() {
    std::string error;
    ASSERT_TRUE(MakeDocumentTopic(Config(), topic_, std::nullopt, 20s, error)) << error;
  }
  void MakeWith(int partitions, const char* setting, const char* value) {
    std::string error;
    const auto client = NewClient(Config(), Role::kAdmin, error);
    ASSERT_NE(client, nullptr) << error;
    auto* wanted = rd_kafka_NewTopic_new(topic_.c_str(), partitions, 1, nullptr, 0);
    rd_kafka_NewTopic_set_config(wanted, setting, value);
    const QueuePtr queue(rd_kafka_queue_new(client.get()));
    rd_kafka_CreateTopics(client.get(), &wanted, 1, nullptr, queue.get());
    const EventPtr event(rd_kafka_queue_poll(queue.get(), 20'000));
    rd_kafka_NewTopic_destroy(wanted);
    ASSERT_NE(event, nullptr);
    AwaitPartitions(partitions);
  }
  void Delete() {
    std::string error;
    const auto client = NewClient(Config(), Role::kAdmin, error);
    ASSERT_NE(client, nullptr) << error;
    auto* unwanted = rd_kafka_DeleteTopic_new(topic_.c_str());
    const QueuePtr queue(rd_kafka_queue_new(client.get()));
    rd_kafka_DeleteTopics(client.get(), &unwanted, 1, nullptr, queue.get());
    const EventPtr event(rd_kafka_queue_poll(queue.get(), 20'000));
    rd_kafka_DeleteTopic_destroy(unwanted);
    ASSERT_NE(event, nullptr);
    AwaitPartitions(0);
  }
  void AwaitPartitions(int count) {
    std::string error;
    const auto cluster = ClusterQuestions::Create(Config(), 5s, error);
    for (int i = 0; i < 200 && cluster->Partitions(topic_) != count; ++i) std::this_thread::sleep_for(50ms);
    ASSERT_EQ(cluster->Partitions(topic_), count);
  }
  std::unique_ptr<DocumentWriter> Begun() {
    std::string error;
    auto writer = DocumentWriter::Create(Config(), topic_, "tester", error);
    EXPECT_NE(writer, nullptr) << error;
    EXPECT_TRUE(writer->Begin(20s, error)) << error;
    return writer;
  }
  void Write(const DocumentWriter::Changes& changes) {
    std::string error;
    ASSERT_EQ(Begun()->Commit(changes, 20s, error), Result::kWritten) << error;
  }
  Documents Read() {
    std::string error;
    const auto log = ReadDocumentTopic(Config(), topic_, 20s, error);
    EXPECT_TRUE(log) << error;
    return log ? log->Documents() : Documents();
  }
  std::unique_ptr<KafkaTopicSource> Source() {
    std::string error;
    auto source = KafkaTopicSource::Create(Config(), topic_, error);
    EXPECT_NE(source, nullptr) << error;
    return source;
  }
  /// Waits for these documents; every other revision on the way goes to `seen`.
  void Await(config::Source& source, const Documents& wanted, std::set<Documents>* seen = nullptr) {
    for (int i = 0; i < 60; ++i) {
      auto outcome = source.Next(have_, 500ms, {});
      if (auto* changed = std::get_if<Changed>(&outcome)) {
        have_ = changed->snapshot.revision;
        if (changed->snapshot.files == wanted) return;
        if (seen != nullptr) seen->insert(changed->snapshot.files);
      }
    }
    ADD_FAILURE() << "not within half a minute";
  }
  std::string AwaitFailure(config::Source& source) {
    for (int i = 0; i < 60; ++i) {
      auto outcome = source.Next(have_, 500ms, {});
      if (auto* failed = std::get_if<Failed>(&outcome)) return failed->why;
    }
    return "none within half a minute";
  }

  std::string bootstrap_;
  std::string topic_;
  std::string have_;
};

TEST_F(RealDocumentsTest, ATopicIsMadeCompactedAndWithOnePartition) {
  EXPECT_THAT(Read(), IsEmpty());  // one that is not there
  Make();
  Make();  // is there already
  std::string error;
  const auto cluster = ClusterQuestions::Create(Config(), 10s, error);
  EXPECT_EQ(cluster->Partitions(topic_), 1);
  EXPECT_EQ(cluster->TopicSetting(topic_, "cleanup.policy"), "compact") << cluster->last_error();
  EXPECT_EQ(cluster->TopicSetting(topic_, "message.timestamp.type"), "LogAppendTime");
  EXPECT_EQ(cluster->TopicSetting(topic_, "no.such.setting"), std::nullopt);
}

TEST_F(RealDocumentsTest, ATopicThatWouldForgetDocumentsIsRefused) {
  MakeWith(1, "cleanup.policy", "delete");
  std::string error;
  EXPECT_FALSE(MakeDocumentTopic(Config(), topic_, std::nullopt, 20s, error));
  EXPECT_THAT(error, HasSubstr("cleanup.policy=delete"));
  EXPECT_THAT(AwaitFailure(*Source()), HasSubstr("cleanup.policy=delete"));
}

TEST_F(RealDocumentsTest, OneTransactionIsOneRevision) {
  Make();
  const auto source = Source();
  EXPECT_THAT(AwaitFailure(*source), HasSubstr("holds no document yet"));
  std::set<Documents> seen;
  Write({{"a.yaml", "1"}, {"b.yaml", "1"}, {"c.yaml", "1"}});
  Await(*source, {{"a.yaml", "1"}, {"b.yaml", "1"}, {"c.yaml", "1"}}, &seen);
  Write({{"a.yaml", "2"}, {"b.yaml", std::nullopt}, {"d.yaml", "2"}});
  Await(*source, {{"a.yaml", "2"}, {"c.yaml", "1"}, {"d.yaml", "2"}}, &seen);
  EXPECT_THAT(seen, IsEmpty());
  EXPECT_EQ(Read(), (Documents{{"a.yaml", "2"}, {"c.yaml", "1"}, {"d.yaml", "2"}}));
}

TEST_F(RealDocumentsTest, WhoeverBeganBeforeWritesNothing) {
  Make();
  Write({{"a.yaml", "first"}});
  const auto slow = Begun();
  const auto quick = Begun();
  std::string error;
  EXPECT_EQ(slow->Commit({{"a.yaml", "slow"}, {"b.yaml", "slow"}}, 20s, error), Result::kOvertaken) << error;
  EXPECT_THAT(error, HasSubstr("at the same time"));
  EXPECT_EQ(quick->Commit({{"a.yaml", "quick"}}, 20s, error), Result::kWritten) << error;
  Await(*Source(), {{"a.yaml", "quick"}});
}

TEST_F(RealDocumentsTest, WritersAtTheSameTimeLoseNoUpdate) {
  constexpr int kWriters = 3;
  constexpr int kEach = 3;
  Make();
  Write({{"n.yaml", "0"}});
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      std::minstd_rand random(static_cast<unsigned>(w + 1));
      for (int done = 0, overtaken = 0; done < kEach;) {
        const auto begun = std::chrono::steady_clock::now();
        const auto writer = Begun();
        const auto documents = Read();
        ASSERT_THAT(documents, testing::Contains(testing::Key("n.yaml")));
        const int n = std::stoi(documents.at("n.yaml"));
        std::string error;
        if (writer->Commit({{"n.yaml", std::to_string(n + 1)}}, 20s, error) == Result::kWritten) {
          ++done;
          overtaken = 0;
          continue;
        }
        const auto took = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
        std::this_thread::sleep_for(PauseAfterOvertaken(++overtaken, took, random));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  Await(*Source(), {{"n.yaml", std::to_string(kWriters * kEach)}});
}

TEST_F(RealDocumentsTest, ATopicThatIsGoneIsWaitedForAndReadAnew) {
  const auto source = Source();
  EXPECT_THAT(AwaitFailure(*source), HasSubstr("is not there"));
  Make();
  Write({{"a.yaml", "1"}, {"b.yaml", "1"}});
  Await(*source, {{"a.yaml", "1"}, {"b.yaml", "1"}});
  Delete();
  EXPECT_THAT(AwaitFailure(*source), HasSubstr("is not there"));
  Make();
  Write({{"a.yaml", "2"}});
  Await(*source, {{"a.yaml", "2"}});
}

TEST_F(RealDocumentsTest, ASourceWhoseTopicWasDeletedAMomentAgoEnds) {
  Make();
  Write({{"a.yaml", "1"}});
  auto source = Source();
  Await(*source, {{"a.yaml", "1"}});
  Delete();
  source.reset();
}

TEST_F(RealDocumentsTest, ATopicMadeAnewWithAsManyRecordsIsNotTakenForTheOldOne) {
  Make();
  Write({{"a.yaml", "1"}});
  const auto source = Source();
  Await(*source, {{"a.yaml", "1"}});
  Delete();
  Make();
  Write({{"b.yaml", "2"}});
  Await(*source, {{"b.yaml", "2"}});
}

/// The broker hangs (SIGSTOP) as long as this lives.
class PausedBroker {
 public:
  PausedBroker() { Run("pause"); }
  ~PausedBroker() { Run("resume"); }
  PausedBroker(const PausedBroker&) = delete;
  PausedBroker& operator=(const PausedBroker&) = delete;

 private:
  static void Run(const std::string& command) {
    const char* id = std::getenv("POSTHORN_TEST_KAFKA_ID");
    ASSERT_NE(id, nullptr);
    ASSERT_EQ(std::system((POSTHORN_SOURCE_DIR "/scripts/kafka " + command + " --id " + id).c_str()), 0);
  }
};

TEST_F(RealDocumentsTest, AStopDoesNotWaitForABrokerThatHangs) {
  Make();
  Write({{"a.yaml", "1"}});
  auto source = Source();
  Await(*source, {{"a.yaml", "1"}});
  const auto expect_soon = [](const auto& end) {
    const auto asked = std::chrono::steady_clock::now();
    end();
    EXPECT_LT(std::chrono::steady_clock::now() - asked, 100ms);
  };
  const PausedBroker paused;
  AwaitFailure(*source);  // its question is on the way, and is not answered
  config::ConfigWatch watch(std::move(source), {});
  watch.Start();
  std::stop_source stop;
  auto other = Source();
  AwaitFailure(*other);
  std::thread waiting([&] { other->Next("", 1h, stop.get_token()); });
  expect_soon([&] { watch.Stop(); });
  expect_soon([&] {
    stop.request_stop();
    waiting.join();
  });
}

}  // namespace
}  // namespace posthorn::kafka
