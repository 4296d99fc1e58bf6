#include "worker/cli/config_source.h"

#include "config/sources/make_source.h"
#include "worker/kafka/kafka_topic_source.h"

namespace posthorn::cli {

std::unique_ptr<config::Source> MakeConfigSource(const config::Deployment& deployment, std::string* why) {
  const auto over_kafka = [&](const config::KafkaTopicSettings& settings,
                              std::string* fault) -> std::unique_ptr<config::Source> {
    const auto client = kafka::ClientConfig::ForSubscriptions(deployment);
    for (const auto& found : client.Faults()) *fault += (fault->empty() ? "" : "\n") + found;
    if (!fault->empty()) return nullptr;
    return kafka::KafkaTopicSource::Create(client, settings.name, *fault);
  };
  why->clear();
  return config::MakeSource(deployment.source, over_kafka, why);
}

}  // namespace posthorn::cli
