#include "worker/kafka/fleet_topics.h"

#include <utility>
#include <vector>

#include "worker/delivery/retry_record.h"

namespace posthorn::kafka {

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
  // One broker may be down, and still no parked message is in one place only.
  if (retry.replication) parked.settings.emplace_back("min.insync.replicas", *retry.replication >= 3 ? "2" : "1");
  return AckedProducer::Create(config, std::move(topics), error);
}

}  // namespace posthorn::kafka
