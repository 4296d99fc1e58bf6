#include "worker/kafka/embedded_broker.h"

// rdkafka_mock.h does not include what it needs.
// clang-format off
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
// clang-format on

#include <chrono>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "config/model.h"
#include "worker/kafka/client.h"

namespace posthorn::kafka {
namespace {

using MockPtr = std::unique_ptr<rd_kafka_mock_cluster_t, Deleter<&rd_kafka_mock_cluster_destroy>>;

// Control calls made back to back lose wake-ups inside librdkafka and then take a second.
void Breathe() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

struct EmbeddedBroker::Impl {
  ClientPtr client;
  MockPtr cluster;  // declared after the client it lives in
  int brokers = 1;
  std::string bootstrap;
  std::map<std::string, std::int32_t> topics;
};

EmbeddedBroker::EmbeddedBroker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmbeddedBroker::~EmbeddedBroker() = default;

std::unique_ptr<EmbeddedBroker> EmbeddedBroker::Create(std::string& error, int brokers) {
  auto impl = std::make_unique<Impl>();
  impl->brokers = brokers;
  config::Deployment deployment;
  deployment.fleet = "embedded-broker";
  deployment.kafka["log_level"] = "3";  // this client connects to nobody, which librdkafka would remark on
  impl->client = NewClient(ClientConfig::From(deployment, true), Role::kProducer, error);
  if (impl->client == nullptr) return nullptr;
  impl->cluster.reset(rd_kafka_mock_cluster_new(impl->client.get(), brokers));
  if (impl->cluster == nullptr) {
    error = "no port of 127.0.0.1 could be had for the embedded broker";
    return nullptr;
  }
  Breathe();
  impl->bootstrap = rd_kafka_mock_cluster_bootstraps(impl->cluster.get());
  return std::unique_ptr<EmbeddedBroker>(new EmbeddedBroker(std::move(impl)));
}

const std::string& EmbeddedBroker::bootstrap() const { return impl_->bootstrap; }

bool EmbeddedBroker::CreateTopic(const std::string& topic, std::int32_t partitions, std::string& error) {
  const auto [at, fresh] = impl_->topics.emplace(topic, partitions);
  if (!fresh) {
    if (at->second == partitions) return true;
    error = "topic " + topic + " exists with " + std::to_string(at->second) + " partitions";
    return false;
  }
  Breathe();
  const auto result = rd_kafka_mock_topic_create(impl_->cluster.get(), topic.c_str(), partitions, 1);
  if (result == RD_KAFKA_RESP_ERR_NO_ERROR) return true;
  impl_->topics.erase(at);
  error = "topic " + topic + ": " + rd_kafka_err2str(result);
  return false;
}

void EmbeddedBroker::SetDown(bool down) {
  Breathe();
  if (down)
    rd_kafka_mock_broker_set_down(impl_->cluster.get(), -1);
  else
    rd_kafka_mock_broker_set_up(impl_->cluster.get(), -1);
}

void EmbeddedBroker::KeepAnswer(const std::string& group, Request to) {
  constexpr std::int16_t kOffsetCommit = 8;
  constexpr std::int16_t kOffsetFetch = 9;
  constexpr int kNever = 3'600'000;  // ms
  auto* cluster = impl_->cluster.get();
  Breathe();
  rd_kafka_mock_coordinator_set(cluster, "group", group.c_str(), impl_->brokers);
  Breathe();
  rd_kafka_mock_broker_push_request_error_rtts(cluster, impl_->brokers,
                                               to == Request::kFetchOffsets ? kOffsetFetch : kOffsetCommit, 1,
                                               RD_KAFKA_RESP_ERR_NO_ERROR, kNever);
}

void EmbeddedBroker::HaveNoLeaders(int questions) {
  constexpr std::int16_t kListOffsets = 2;
  const std::vector<rd_kafka_resp_err_t> errors(static_cast<std::size_t>(questions),
                                                RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  Breathe();
  rd_kafka_mock_push_request_errors_array(impl_->cluster.get(), kListOffsets, errors.size(), errors.data());
}

}  // namespace posthorn::kafka
