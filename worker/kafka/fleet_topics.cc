#include "worker/kafka/fleet_topics.h"

#include <thread>
#include <utility>
#include <vector>

#include "worker/delivery/retry_record.h"
#include "worker/kafka/cluster_questions.h"

namespace posthorn::kafka {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};

}  // namespace

RetryTopicOptions RetryTopicOptions::From(const config::Deployment& deployment) {
  RetryTopicOptions options;
  options.partitions = static_cast<int>(deployment.retry_partitions);
  if (deployment.retry_replication) options.replication = static_cast<int>(*deployment.retry_replication);
  options.retention = deployment.retry_retention;
  return options;
}

std::shared_ptr<AckedProducer> MakeFleetProducer(const ClientConfig& config, const RetryTopicOptions& retry,
                                                 std::string& error) {
  std::vector<AckedProducer::Topic> topics(2);
  topics[kDeadLetterTopic].name = config.fleet() + ".dead-letters";
  topics[kDeadLetterTopic].what = "dead-letter topic";
  auto& parked = topics[kRetryTopic];
  parked.name = delivery::RetryTopic(config.fleet());
  parked.what = "retry topic";
  parked.at_start = false;  // a fleet that parks nothing has nothing to do with it
  parked.partitions = retry.partitions;
  parked.replication = retry.replication.value_or(-1);
  parked.settings = {{"cleanup.policy", "delete"}, {"retention.ms", std::to_string(retry.retention.count())}};
  return AckedProducer::Create(config, std::move(topics), error);
}

std::optional<std::int32_t> MakeRetryTopic(const ClientConfig& config, const RetryTopicOptions& retry,
                                           std::chrono::milliseconds patience, std::string& error) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto cluster = ClusterQuestions::Create(config, patience, error);
  const auto producer = cluster == nullptr ? nullptr : MakeFleetProducer(config, retry, error);
  if (producer == nullptr) return std::nullopt;
  const auto& topic = producer->name_of(kRetryTopic);
  producer->Ensure(kRetryTopic);
  while (true) {
    const auto partitions = cluster->Partitions(topic);
    if (partitions && *partitions > 0) return partitions;
    if (std::chrono::steady_clock::now() >= deadline) {
      error = partitions ? "the topic " + topic + " could not be made" : cluster->last_error();
      return std::nullopt;
    }
    std::this_thread::sleep_for(kLookAgain);  // brokers tell nobody that a topic is there
  }
}

}  // namespace posthorn::kafka
