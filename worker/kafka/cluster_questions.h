#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/client_config.h"
#include "worker/runtime/clock.h"

namespace posthorn::kafka {

/// What a command wants to know of the cluster and of the fleet's group. Joins nothing, fetches nothing.
///
/// Threads  One. Every question blocks, at most `patience`.
/// Errors   Unset, and last_error() says why, naming what was asked for.
class ClusterQuestions {
 public:
  using Offset = delivery::Offset;
  /// Null and `error` set when the client cannot be made (see ClientConfig::Faults). Opens no connection yet.
  static std::unique_ptr<ClusterQuestions> Create(const ClientConfig& config, std::chrono::milliseconds patience,
                                                  std::string& error);
  ~ClusterQuestions();
  ClusterQuestions(const ClusterQuestions&) = delete;
  ClusterQuestions& operator=(const ClusterQuestions&) = delete;

  /// 0: there is no such topic.
  [[nodiscard]] std::optional<std::int32_t> Partitions(const std::string& topic);
  /// {earliest, log end}
  [[nodiscard]] std::optional<std::pair<Offset, Offset>> Bounds(const delivery::TopicPartition& partition);
  /// For each partition from 0 on the first message with this timestamp or a later one; unset: there is none yet.
  [[nodiscard]] std::optional<std::vector<std::optional<Offset>>> FirstSince(const std::string& topic,
                                                                             std::int32_t partitions,
                                                                             runtime::WallTime time);
  /// A setting of a topic that is there, the brokers' default included.
  [[nodiscard]] std::optional<std::string> TopicSetting(const std::string& topic, const std::string& key);
  /// How many members the fleet's group has: its workers, and static members whose session has not ended.
  [[nodiscard]] std::optional<std::size_t> Members();

  [[nodiscard]] const std::string& last_error() const;
  /// Whether the last failure is that the user lacks a right, or is not let in.
  [[nodiscard]] bool denied() const;

 private:
  struct Impl;
  explicit ClusterQuestions(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
