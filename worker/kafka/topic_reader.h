#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// A part of a partition's log.
struct Section {
  delivery::TopicPartition partition;
  delivery::Offset first = 0;
  delivery::Offset end = 0;
};

/// Reads sections of logs once, outside every group, and hands each message to `visit`: those of a partition in order,
/// partitions mixed. `visit` ends the reading by returning false.
///
/// Time     Blocks while messages come; gives up when nothing has come for `patience`.
/// Errors   False, and `error` says what is missing. What was visited before was real.
/// Threads  One; `visit` is called on it.
/// Memory   What one client fetches ahead (8 MiB), and one message.
[[nodiscard]] bool ReadSections(
    const ClientConfig& config, const std::vector<Section>& sections, std::chrono::milliseconds patience,
    const std::function<bool(const delivery::TopicPartition&, const delivery::RecordPtr&)>& visit, std::string& error);

}  // namespace posthorn::kafka
