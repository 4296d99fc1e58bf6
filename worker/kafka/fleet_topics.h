#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "worker/kafka/acked_producer.h"

namespace posthorn::kafka {

/// How the fleet's retry topic is made where it is missing.
struct RetryTopicOptions {
  int partitions = 3;
  std::optional<int> replication;                        // unset: the brokers' own number
  std::chrono::milliseconds retention{14 * 86'400'000};  // longer than the longest TTL
};

/// One producer for the fleet's own topics: `<fleet>.dead-letters`, `<fleet>.retry`.
inline constexpr std::size_t kDeadLetterTopic = 0;
inline constexpr std::size_t kRetryTopic = 1;
[[nodiscard]] std::shared_ptr<AckedProducer> MakeFleetProducer(const ClientConfig& config,
                                                               const RetryTopicOptions& retry, std::string& error);

}  // namespace posthorn::kafka
