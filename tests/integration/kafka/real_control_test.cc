// The control topics on a real Kafka: how they are made, and what comes through them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/integration/kafka/real_fixture.h"
#include "tests/integration/kafka/recording_control.h"
#include "tests/integration/kafka/recording_worker.h"
#include "worker/cli/control_wiring.h"
#include "worker/fleet/control_wire.h"
#include "worker/fleet/limit_book.h"
#include "worker/kafka/client.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using ratelimit::Label;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kWaitForKafka = 20'000;  // ms

struct TopicAsMade {
  int brokers = 0;
  int partitions = 0;
  int replicas = 0;
  std::map<std::string, std::string> settings;
};

TopicAsMade Describe(const ClientConfig& config, const std::string& name) {
  TopicAsMade made;
  std::string error;
  const auto client = NewClient(config, Role::kAdmin, error);
  const TopicPtr topic(rd_kafka_topic_new(client.get(), name.c_str(), nullptr));
  const rd_kafka_metadata_t* metadata = nullptr;
  EXPECT_EQ(rd_kafka_metadata(client.get(), 0, topic.get(), &metadata, kWaitForKafka), RD_KAFKA_RESP_ERR_NO_ERROR);
  if (metadata == nullptr) return made;
  made.brokers = metadata->broker_cnt;
  made.partitions = metadata->topics[0].partition_cnt;
  if (made.partitions > 0) made.replicas = metadata->topics[0].partitions[0].replica_cnt;
  rd_kafka_metadata_destroy(metadata);

  const QueuePtr queue(rd_kafka_queue_new(client.get()));
  const auto options = NewAdminOptions(client.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, kWaitForKafka);
  auto* asked = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name.c_str());
  rd_kafka_DescribeConfigs(client.get(), &asked, 1, options.get(), queue.get());
  rd_kafka_ConfigResource_destroy(asked);
  const EventPtr event(rd_kafka_queue_poll(queue.get(), kWaitForKafka));
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return made;
  std::size_t count = 0;
  const auto** resources =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t entries = 0;
    const auto** entry = rd_kafka_ConfigResource_configs(resources[i], &entries);
    for (std::size_t e = 0; e < entries; ++e) {
      const char* value = rd_kafka_ConfigEntry_value(entry[e]);
      made.settings[rd_kafka_ConfigEntry_name(entry[e])] = value == nullptr ? "" : value;
    }
  }
  return made;
}

/// With one partition and what the brokers set otherwise: stamps are those of whoever writes.
void MakeByHand(const ClientConfig& config, const std::string& name) {
  std::string error;
  const auto client = NewClient(config, Role::kAdmin, error);
  const QueuePtr queue(rd_kafka_queue_new(client.get()));
  const auto options = NewAdminOptions(client.get(), RD_KAFKA_ADMIN_OP_CREATETOPICS, kWaitForKafka);
  auto* topic = rd_kafka_NewTopic_new(name.c_str(), 1, -1, nullptr, 0);
  rd_kafka_CreateTopics(client.get(), &topic, 1, options.get(), queue.get());
  rd_kafka_NewTopic_destroy(topic);
  const EventPtr event(rd_kafka_queue_poll(queue.get(), kWaitForKafka));
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(rd_kafka_event_error(event.get()), RD_KAFKA_RESP_ERR_NO_ERROR);
}

class RealControlTest : public testing::Test {
 protected:
  void SetUp() override {
    bootstrap_ = Environment("POSTHORN_TEST_KAFKA");
    name_ = OwnName();
  }
  ClientConfig Config() { return ClientConfig::ForControl(TestDeployment(bootstrap_, name_)); }
  void Produce(const std::string& topic, std::int32_t partition, const std::vector<std::string>& values,
               std::int64_t timestamp_ms = 0) {
    std::string error;
    const auto producer = Producer::Create(Config(), error);
    ASSERT_NE(producer, nullptr) << error;
    for (const auto& value : values) {
      OutgoingRecord record;
      record.topic = topic;
      record.partition = partition;
      record.value = value;
      record.timestamp_ms = timestamp_ms;
      ASSERT_TRUE(producer->Send(record)) << producer->last_error();
    }
    ASSERT_TRUE(producer->Flush(30s)) << producer->last_error();
  }

  std::string bootstrap_;
  std::string name_;
};

TEST_F(RealControlTest, TopicsAreMadeAsLeasesNeedThem) {
  RecordingControl worker(Config(), 3);
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.owned.size() == 3 && told.ended.size() == 3; }));
  EXPECT_EQ(worker.told().partitions, 3);
  for (const std::string& topic : {name_ + ".demand", name_ + ".grants"}) {
    SCOPED_TRACE(topic);
    auto made = Describe(Config(), topic);
    EXPECT_EQ(made.partitions, 3);
    EXPECT_EQ(made.replicas, std::min(made.brokers, 3));
    EXPECT_EQ(made.settings["min.insync.replicas"], made.replicas >= 3 ? "2" : "1");
    EXPECT_EQ(made.settings["cleanup.policy"], "delete");
    EXPECT_EQ(made.settings["retention.ms"], "600000");
    EXPECT_EQ(made.settings["segment.ms"], "600000");
    EXPECT_EQ(made.settings["message.timestamp.type"], "LogAppendTime");
    EXPECT_EQ(made.settings["unclean.leader.election.enable"], "false");
    EXPECT_EQ(made.settings["max.message.bytes"], std::to_string(kControlRecordBytes));
  }

  worker.channel().Report(2, "report");
  worker.channel().Append(2, "grant 1");
  worker.channel().Append(2, std::string(3 << 20, 'g'));
  ASSERT_TRUE(worker.WaitFor([](const auto& told) {
    return told.reports.contains(2) && told.log.contains(2) && told.log.at(2).size() == 2 && !told.stored.empty();
  }));
  const auto told = worker.told();
  EXPECT_THAT(told.reports.at(2), ElementsAre("report"));
  EXPECT_EQ(told.log.at(2)[0], "grant 1");
  EXPECT_EQ(told.log.at(2)[1].size(), std::size_t{3} << 20);
  ASSERT_THAT(told.stored, SizeIs(1));
  // One machine, one clock; the broker's is cut off to milliseconds.
  EXPECT_GT(told.stored[0].stored, told.stored[0].sent - 1ms);
  EXPECT_LE(told.stored[0].stored, told.stored[0].known);

  // Whoever comes later reads what was granted lately.
  RecordingControl later(Config(), 3);
  ASSERT_TRUE(later.WaitFor([](const auto& heard) { return heard.ended.size() == 3; }));
  EXPECT_THAT(later.told().log.at(2), SizeIs(2));
}

TEST_F(RealControlTest, TopicsMadeByHandWithoutTheBrokersTimeStillCarryLeases) {
  // Stamps of an hour ago, as a broker's wrong clock would set them.
  MakeByHand(Config(), name_ + ".demand");
  MakeByHand(Config(), name_ + ".grants");
  const auto hour_ago = std::chrono::duration_cast<std::chrono::milliseconds>(
      (runtime::SystemClock().Read().wall - 1h).time_since_epoch());
  Produce(name_ + ".grants", 0, {"a", "b"}, hour_ago.count());
  testing::internal::CaptureStderr();
  {
    RecordingControl worker(Config(), 3);
    EXPECT_TRUE(worker.WaitFor([](const auto& told) { return !told.ended.empty() && !told.owned.empty(); }));
    EXPECT_EQ(worker.told().partitions, 1);
    EXPECT_THAT(worker.told().log[0], ElementsAre("a", "b"));
    worker.channel().Report(0, "report 1");
    worker.channel().Report(0, "report 2");
    EXPECT_TRUE(
        worker.WaitFor([](const auto& told) { return told.reports.contains(0) && told.reports.at(0).size() == 2; }));
    worker.channel().Stop();
    EXPECT_THAT(worker.told().stored, IsEmpty());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string warning = "message.timestamp.type=LogAppendTime";
  ASSERT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << "said once: " << log;
}

/// A worker's limit `acme` by lease: as much as it may is used of it while it is busy.
class Centre {
 public:
  Centre(const std::string& control, const std::string& fleet, const std::string& instance, std::int64_t rate) {
    auto deployment = TestDeployment("127.0.0.1:1", fleet, instance);  // its messages' cluster, of no use here
    deployment.control_kafka["bootstrap.servers"] = control;
    const auto process = cli::ControlWiring::NewProcess(deployment, Now().wall);
    fleet::LimitBook::Options book;
    book.by_lease = process;
    book_ = std::make_unique<fleet::LimitBook>(book);
    config::Snapshot snapshot;
    snapshot.limits.emplace_back();
    snapshot.limits[0].name = "acme";
    snapshot.limits[0].max_rate = ratelimit::MaxRate::Parse(std::to_string(rate) + "/s", nullptr).value();
    snapshot.limits[0].burst = config::Burst::kWindow;
    book_->OnSnapshot(std::make_shared<const config::Snapshot>(std::move(snapshot)), Now().wall);

    cli::ControlWiring::Parts parts;
    parts.clock = &runtime::SystemClock();
    parts.limits = book_.get();
    parts.process = process;
    parts.demand = [this](const runtime::Now&) {
      const std::int64_t demand = busy ? 1'000'000 : 0;
      return std::map<std::string, fleet::Demand>{{"acme", {demand, demand}}};
    };
    parts.wake = [] {};
    std::string why;
    wiring_ = cli::ControlWiring::Create(deployment, parts, &why);
    EXPECT_NE(wiring_, nullptr) << why;
    if (wiring_ != nullptr) wiring_->Start();
  }
  ~Centre() {
    if (wiring_ != nullptr) wiring_->Stop();
  }
  Centre(const Centre&) = delete;
  Centre& operator=(const Centre&) = delete;

  static runtime::Now Now() { return runtime::SystemClock().Read(); }
  void Send() {
    const auto limiter = book_->Find("acme");
    while (busy) {
      const auto decision = limiter->Acquire(Now().wall, ratelimit::Nanoseconds(0));
      const auto* admitted = std::get_if<ratelimit::Admitted>(&decision);
      if (admitted == nullptr) return;
      ++used[admitted->label];
    }
  }
  [[nodiscard]] fleet::ControlView View() const { return wiring_->plane().View(); }
  [[nodiscard]] std::uint64_t Ignored(fleet::WireFault fault) const {
    return View().ignored[static_cast<std::size_t>(fault)];
  }
  [[nodiscard]] std::int64_t UsedIn(Label label) const {
    const auto found = used.find(label);
    return found == used.end() ? 0 : found->second;
  }

  std::atomic<bool> busy{false};
  std::map<Label, std::int64_t> used;

 private:
  std::unique_ptr<fleet::LimitBook> book_;
  std::unique_ptr<cli::ControlWiring> wiring_;
};

/// What is none of ours, what a later version has written, and what has been damaged.
template <typename Message>
std::vector<std::string> Unreadable(const Message& message) {
  const std::string good = fleet::Encode(message);
  std::string newer = good;
  newer[3] = '\x7f';  // the version
  std::string damaged = good;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  return {"{\"not\": \"ours\"}", newer, damaged};
}

TEST_F(RealControlTest, CentresShareALimitOverAClusterOfItsOwn) {
  constexpr std::int64_t kRate = 100;
  Centre east(bootstrap_, name_, "east", kRate);
  Centre west(bootstrap_, name_, "west", kRate);
  const auto until = [&](const auto& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 40s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      east.Send();
      west.Send();
      std::this_thread::sleep_for(5ms);  // the rate of asking
    }
    return true;
  };
  const auto last = [] { return ratelimit::LabelAt(Centre::Now().wall) - 1; };

  east.busy = true;
  ASSERT_TRUE(until([&] { return east.UsedIn(last()) >= kRate * 95 / 100; })) << "the busy one has the limit";
  EXPECT_TRUE(west.used.empty());
  const auto fleet = east.View();
  ASSERT_THAT(fleet.limits, SizeIs(1));
  EXPECT_EQ(fleet.limits[0].coordinator, west.View().limits.at(0).coordinator);

  // The others' records are left out and counted, and nothing else happens.
  const auto partition = fleet.limits[0].partition;
  Produce(name_ + ".grants", partition, Unreadable(fleet::LogMessage{"nobody", {}}));
  Produce(name_ + ".demand", partition, Unreadable(fleet::ReportMessage{"nobody", {}}));
  using fleet::WireFault;
  for (const auto fault : {WireFault::kForeign, WireFault::kNewer, WireFault::kDamaged}) {
    // Grants are read by both, reports by the one that coordinates.
    EXPECT_TRUE(until([&] { return east.Ignored(fault) + west.Ignored(fault) == 3; })) << fleet::ToString(fault);
  }

  east.busy = false;
  west.busy = true;
  ASSERT_TRUE(until([&] { return west.UsedIn(last()) >= kRate * 95 / 100; })) << "the limit goes to the other centre";
  east.busy = true;
  ASSERT_TRUE(until([&] { return std::min(east.UsedIn(last()), west.UsedIn(last())) >= kRate * 45 / 100; }))
      << "both are busy: they share it";

  std::map<Label, std::int64_t> all = east.used;
  for (const auto& [label, used] : west.used) all[label] += used;
  for (const auto& [label, used] : all) EXPECT_LE(used, kRate) << label;
  EXPECT_EQ(east.View().above_total + west.View().above_total, 0u);
}

}  // namespace
}  // namespace posthorn::kafka
