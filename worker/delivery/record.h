#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/delivery/memory_account.h"

namespace posthorn::delivery {

struct RetryState;

/// Position of a record in its partition. The *next* position to read is a CommitOffset = offset + 1; both are plain
/// numbers in Kafka, so the names of variables say which (`offset`, `next`).
using Offset = std::int64_t;

struct OffsetRange {
  Offset first = 0;
  Offset end = 0;  // the first one that is not in it
  bool operator==(const OffsetRange&) const = default;
};

struct TopicPartition {
  std::string topic;
  std::int32_t partition = 0;
  auto operator<=>(const TopicPartition&) const = default;
};

struct HeaderView {
  std::string_view name;
  std::optional<std::string_view> value;  // unset: Kafka's null
};

/// A message, copied out of the client library into one block of our own (a held library message would pin its whole
/// fetch response). Immutable. Attempts, lanes and the ring of a partition share it.
///
/// Threads  Immutable and reference-counted atomically; ChargeTo: the shard's, whoever else holds it.
class Record {
 public:
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  struct Parts {
    Offset offset = 0;
    std::int64_t timestamp_ms = -1;  // as published, -1 when the record has none
    std::optional<std::string_view> key;
    std::optional<std::string_view> value;  // unset: a null value (tombstone)
    const std::vector<HeaderView>* headers = nullptr;
    std::shared_ptr<const RetryState> retry;  // see Record::retry
  };
  /// Copies everything `parts` points to.
  static std::shared_ptr<const Record> Copy(const Parts& parts);

  /// Where it was read.
  [[nodiscard]] Offset offset() const { return offset_; }
  [[nodiscard]] std::int64_t timestamp_ms() const { return timestamp_ms_; }
  [[nodiscard]] std::optional<std::string_view> key() const { return key_; }
  [[nodiscard]] std::optional<std::string_view> value() const { return value_; }
  [[nodiscard]] const std::vector<HeaderView>& headers() const { return headers_; }
  /// Set for a message that was read from the retry topic: key, value, headers and timestamp are those of the message.
  [[nodiscard]] const RetryState* retry() const { return retry_.get(); }
  /// Where the message was first: itself, unless it came by the retry topic.
  [[nodiscard]] Offset source_offset() const;
  /// The partition of source_offset(); `read_from` is where it was read.
  [[nodiscard]] const TopicPartition& source(const TopicPartition& read_from) const;
  /// The last header of that name (exact match), as Kafka's own `lastHeader`.
  [[nodiscard]] const HeaderView* FindHeader(std::string_view name) const;
  /// What this record counts against the memory bounds, everything included.
  [[nodiscard]] std::size_t memory() const { return memory_; }
  /// Counts this record against `account`, and no other one any more, until it is destroyed.
  void ChargeTo(std::shared_ptr<MemoryAccount> account) const;

 private:
  Record() = default;
  Offset offset_ = 0;
  std::int64_t timestamp_ms_ = -1;
  std::optional<std::string_view> key_;
  std::optional<std::string_view> value_;
  std::vector<HeaderView> headers_;
  std::shared_ptr<const RetryState> retry_;
  std::unique_ptr<char[]> bytes_;
  std::size_t memory_ = 0;
  mutable std::shared_ptr<MemoryAccount> account_;
};

using RecordPtr = std::shared_ptr<const Record>;

}  // namespace posthorn::delivery

template <>
struct std::hash<posthorn::delivery::TopicPartition> {
  std::size_t operator()(const posthorn::delivery::TopicPartition& tp) const noexcept {
    return std::hash<std::string>{}(tp.topic) * 31 + static_cast<std::size_t>(tp.partition);
  }
};
