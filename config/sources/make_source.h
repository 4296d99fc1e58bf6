#pragma once

#include <functional>
#include <memory>
#include <string>

#include "config/source_settings.h"
#include "config/sources/source.h"

namespace posthorn::config {

/// Makes the source over a Kafka topic. It is worker/kafka's, handed in by the composition root: this room knows no
/// Kafka. Null: cannot be made, `*why` says why.
using KafkaTopicMaker = std::function<std::unique_ptr<Source>(const KafkaTopicSettings& settings, std::string* why)>;

/// The source the deployment names: the only place where one is chosen. Asks nothing yet, so a server that is away is
/// no reason to fail.
///
/// Errors  Null, and a reason in `*why`, where the settings can never work.
std::unique_ptr<Source> MakeSource(const SourceSettings& settings, const KafkaTopicMaker& kafka_topic,
                                   std::string* why);

}  // namespace posthorn::config
