#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "worker/delivery/record.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

enum class DeadLetterReason : std::uint8_t { kExpired, kAttempts, kRejected, kGone, kTooLarge, kFilteredError };
/// As written into `posthorn-reason`: "expired", "attempts", "rejected", "gone", "too-large", "filtered-error".
const char* ToString(DeadLetterReason reason);
/// The reason that is written so; unset for every other text.
[[nodiscard]] std::optional<DeadLetterReason> DeadLetterReasonOf(std::string_view text);

/// A message that will not be delivered, with what is known about it.
struct DeadLetter {
  RecordPtr record;
  TopicPartition partition;
  std::string subscription;
  DeadLetterReason reason = DeadLetterReason::kExpired;
  std::uint32_t attempts = 0;
  std::optional<runtime::WallTime> first_attempt;
  std::optional<runtime::WallTime> last_attempt;
  int last_status = 0;         // 0: none
  std::string last_error;      // empty: none
  bool without_value = false;  // it is too large to be kept; its size is
};

/// Writes dead letters to `<fleet>.dead-letters` with the headers named in docs/delivery.md.
/// Threads  Write from any thread; `done` comes on the sink's thread, exactly once: true when the record is
/// acknowledged
///          by all in-sync replicas, false when it could not be written now (the caller tries again: a message is not
///          finished before its dead letter is written).
class DeadLetterSink {
 public:
  virtual ~DeadLetterSink() = default;
  virtual void Write(DeadLetter letter, std::function<void(bool)> done) = 0;
};

}  // namespace posthorn::delivery
