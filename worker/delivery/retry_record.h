#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// What the retry topic knows of a message besides the message: whom it is for, where it came from, how far it got.
///
/// Units  Times are milliseconds of the wall clock since 1970.
struct RetryState {
  std::string subscription;
  TopicPartition source;
  Offset source_offset = 0;
  std::int64_t source_timestamp_ms = -1;      // as published, -1 when it has none
  std::uint32_t attempts = 0;                 // made, with an outcome
  std::optional<std::int64_t> first_seen_ms;  // where its TTL began; unset: it begins with the next permit
  std::optional<std::int64_t> due_ms;         // not to be tried before; unset: at once
  bool fresh_ttl = false;                     // its age when published does not count, whatever `ttl_from` says
  bool operator==(const RetryState&) const = default;
};

/// A record's headers as they are written.
using OwnedHeaders = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// The headers of a record in the retry topic: those of the message as they are, in order, then
///
///   posthorn-retry: 1                      the version; everything behind it is Posthorn's
///   posthorn-subscription, posthorn-topic, posthorn-partition, posthorn-offset, posthorn-attempts
///   posthorn-timestamp, posthorn-first-seen, posthorn-due: where known;  posthorn-fresh-ttl: true
///
/// Key and value of the record are the message's own. It belongs into partition RetryPartition(...), where one lane
/// carries it on; within a partition, messages of one key go in the order in which they were written.
/// Errors   None; `state` must have a subscription, a source and no negative number but for source_timestamp_ms.
[[nodiscard]] OwnedHeaders EncodeRetryHeaders(const RetryState& state, const std::vector<HeaderView>& own);

struct RetryHeaders {
  RetryState state;
  std::size_t own = 0;  // how many of the headers, from the first on, are the message's own
  bool operator==(const RetryHeaders&) const = default;
};

enum class RetryFault : std::uint8_t { kForeign, kOtherVersion, kDamaged };
const char* ToString(RetryFault fault);

/// Reads what EncodeRetryHeaders wrote. Headers behind the version that it does not know are passed over.
/// Errors   Never throws, whatever the headers.
[[nodiscard]] std::variant<RetryHeaders, RetryFault> DecodeRetryHeaders(const std::vector<HeaderView>& headers);

/// The message a record of the retry topic carries, with Record::retry set; offset() is still the record's own.
[[nodiscard]] std::variant<RecordPtr, RetryFault> FromRetryTopic(const Record& record);

/// A message that goes on anew, as when a dead letter is delivered again: no attempts, a TTL of its own, at once.
[[nodiscard]] RetryState StartAnew(std::string subscription, TopicPartition source, Offset offset,
                                   std::int64_t timestamp_ms);

[[nodiscard]] std::string RetryTopic(std::string_view fleet);
/// Where everything of a subscription goes in a retry topic of so many partitions (at least one).
[[nodiscard]] std::int32_t RetryPartition(std::string_view subscription, std::int32_t partitions);

}  // namespace posthorn::delivery
