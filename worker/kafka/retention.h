#pragma once

// Private to this room.

#include <chrono>
#include <utility>

#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Asks a broker how long it keeps the offsets of a group without members (`offsets.retention.minutes`), until it is
/// answered or forbidden; then 7 days, Kafka's default, are assumed.
///
/// Threads  One. Never blocks.
class RetentionQuestion {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit RetentionQuestion(ClientPtr client)
      : client_(std::move(client)), queue_(rd_kafka_queue_new(client_.get())) {}

  /// True when the question is settled.
  bool Step(Time now);
  [[nodiscard]] Time wake_at() const { return next_; }
  [[nodiscard]] std::chrono::milliseconds found() const { return found_; }

 private:
  bool Ask();

  ClientPtr client_;
  QueuePtr queue_;  // declared after the client, gone before it
  bool asked_ = false;
  Time next_ = Time::min();
  std::chrono::milliseconds found_ = std::chrono::hours(24 * 7);
};

}  // namespace posthorn::kafka
