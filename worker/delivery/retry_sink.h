#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "worker/delivery/retry_record.h"

namespace posthorn::delivery {

/// The fleet's retry topic, as its writer sees it: where a message goes that would stop its lane. What is read of it
/// comes by the feeds, as of any topic.
///
/// Threads  Any; `done` comes on a thread of the topic's own, exactly once.
class RetrySink {
 public:
  virtual ~RetrySink() = default;
  [[nodiscard]] virtual const std::string& topic() const = 0;
  /// There is something to park: creates the topic if it is missing. The number of its partitions comes as any topic's.
  /// Cheap to repeat.
  virtual void Prepare() = 0;
  /// Writes a message with what is known of it. `done` is told its offset once it is acknowledged by all in-sync
  /// replicas; unset: it could not be written now, or may have been.
  virtual void Write(std::int32_t partition, RecordPtr record, const RetryState& state,
                     std::function<void(std::optional<Offset>)> done) = 0;
  /// A record of the topic was passed over, because it is none of ours.
  virtual void OnIgnored(const TopicPartition& partition, Offset offset, RetryFault fault) = 0;
};

}  // namespace posthorn::delivery
