#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/model.h"
#include "worker/kafka/acked_producer.h"

namespace posthorn::kafka {

/// How the fleet's retry topic is made where it is missing.
struct RetryTopicOptions {
  int partitions = 3;
  std::optional<int> replication;                        // unset: the brokers' own number
  std::chrono::milliseconds retention{14 * 86'400'000};  // longer than the longest TTL

  static RetryTopicOptions From(const config::Deployment& deployment);
};

/// One producer for the fleet's own topics: `<fleet>.dead-letters`, `<fleet>.retry`.
inline constexpr std::size_t kDeadLetterTopic = 0;
inline constexpr std::size_t kRetryTopic = 1;
[[nodiscard]] std::shared_ptr<AckedProducer> MakeFleetProducer(const ClientConfig& config,
                                                               const RetryTopicOptions& retry, std::string& error);

/// How many partitions the retry topic has, made now where it is missing. Blocks for at most `patience`. Unset: `error`
/// says why. For commands; a worker's topics are made by its producer.
[[nodiscard]] std::optional<std::int32_t> MakeRetryTopic(const ClientConfig& config, const RetryTopicOptions& retry,
                                                         std::chrono::milliseconds patience, std::string& error);

}  // namespace posthorn::kafka
