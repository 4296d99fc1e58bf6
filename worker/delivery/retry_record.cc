#include "worker/delivery/retry_record.h"

#include <charconv>
#include <limits>

#include "worker/delivery/stable_hash.h"

namespace posthorn::delivery {
namespace {

constexpr std::string_view kVersion = "posthorn-retry";
constexpr std::string_view kThisVersion = "1";
constexpr std::string_view kSubscription = "posthorn-subscription";
constexpr std::string_view kTopic = "posthorn-topic";
constexpr std::string_view kPartition = "posthorn-partition";
constexpr std::string_view kOffset = "posthorn-offset";
constexpr std::string_view kAttempts = "posthorn-attempts";
constexpr std::string_view kTimestamp = "posthorn-timestamp";
constexpr std::string_view kFirstSeen = "posthorn-first-seen";
constexpr std::string_view kDue = "posthorn-due";
constexpr std::string_view kFreshTtl = "posthorn-fresh-ttl";
constexpr std::int64_t kLatestMs = 7'258'118'400'000;  // the year 2200
constexpr std::size_t kLongestName = 1024;  // Kafka allows topics of 249, the configuration is stricter still

class Fields {
 public:
  Fields(const std::vector<HeaderView>& headers, std::size_t first) : headers_(headers), first_(first) {}
  [[nodiscard]] bool damaged() const { return damaged_; }

  /// The value of that name; damaged when it is there twice, or null.
  std::optional<std::string_view> Find(std::string_view name) {
    std::optional<std::string_view> found;
    for (std::size_t i = first_; i < headers_.size(); ++i) {
      if (headers_[i].name != name) continue;
      if (found || !headers_[i].value) damaged_ = true;
      found = headers_[i].value;
    }
    return found;
  }
  std::string Name(std::string_view name) {
    const auto value = Find(name);
    if (!value || value->empty() || value->size() > kLongestName) damaged_ = true;
    return damaged_ ? std::string() : std::string(*value);
  }
  std::optional<std::int64_t> Number(std::string_view name, std::int64_t least, std::int64_t most) {
    const auto value = Find(name);
    if (!value) return std::nullopt;
    std::int64_t number = 0;
    const auto* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, number);
    if (error != std::errc() || stop != end || number < least || number > most) {
      damaged_ = true;
      return std::nullopt;
    }
    return number;
  }
  std::int64_t Needed(std::string_view name, std::int64_t most) {
    const auto number = Number(name, 0, most);
    if (!number) damaged_ = true;
    return number.value_or(0);
  }
  bool Flag(std::string_view name) {
    const auto value = Find(name);
    if (value && *value != "true") damaged_ = true;
    return value.has_value();
  }

 private:
  const std::vector<HeaderView>& headers_;
  const std::size_t first_;
  bool damaged_ = false;
};

}  // namespace

OwnedHeaders EncodeRetryHeaders(const RetryState& state, const std::vector<HeaderView>& own) {
  OwnedHeaders headers;
  headers.reserve(own.size() + 10);
  for (const auto& header : own) {
    headers.emplace_back(std::string(header.name),
                         header.value ? std::optional(std::string(*header.value)) : std::nullopt);
  }
  const auto add = [&](std::string_view name, std::string value) { headers.emplace_back(name, std::move(value)); };
  add(kVersion, std::string(kThisVersion));
  add(kSubscription, state.subscription);
  add(kTopic, state.source.topic);
  add(kPartition, std::to_string(state.source.partition));
  add(kOffset, std::to_string(state.source_offset));
  add(kAttempts, std::to_string(state.attempts));
  if (state.source_timestamp_ms >= 0) add(kTimestamp, std::to_string(state.source_timestamp_ms));
  const auto add_time = [&](std::string_view name, std::optional<std::int64_t> ms) {
    if (ms) add(name, std::to_string(*ms < 0 ? 0 : *ms > kLatestMs ? kLatestMs : *ms));
  };
  add_time(kFirstSeen, state.first_seen_ms);
  add_time(kDue, state.due_ms);
  if (state.fresh_ttl) add(kFreshTtl, "true");
  return headers;
}

std::variant<RetryHeaders, RetryFault> DecodeRetryHeaders(const std::vector<HeaderView>& headers) {
  // The last one: a message may bring such a header of its own.
  std::size_t version = headers.size();
  while (version > 0 && headers[version - 1].name != kVersion) --version;
  if (version == 0) return RetryFault::kForeign;
  if (headers[version - 1].value != kThisVersion) return RetryFault::kOtherVersion;
  RetryHeaders decoded;
  decoded.own = version - 1;
  auto& state = decoded.state;
  Fields fields(headers, version);
  state.subscription = fields.Name(kSubscription);
  state.source.topic = fields.Name(kTopic);
  state.source.partition =
      static_cast<std::int32_t>(fields.Needed(kPartition, std::numeric_limits<std::int32_t>::max()));
  state.source_offset = fields.Needed(kOffset, std::numeric_limits<Offset>::max());
  state.attempts = static_cast<std::uint32_t>(fields.Needed(kAttempts, std::numeric_limits<std::uint32_t>::max()));
  state.source_timestamp_ms = fields.Number(kTimestamp, 0, std::numeric_limits<std::int64_t>::max()).value_or(-1);
  state.first_seen_ms = fields.Number(kFirstSeen, 0, kLatestMs);
  state.due_ms = fields.Number(kDue, 0, kLatestMs);
  state.fresh_ttl = fields.Flag(kFreshTtl);
  if (fields.damaged()) return RetryFault::kDamaged;
  return decoded;
}

const char* ToString(RetryFault fault) {
  switch (fault) {
    case RetryFault::kForeign:
      return "not written by Posthorn";
    case RetryFault::kOtherVersion:
      return "written by another version";
    case RetryFault::kDamaged:
      return "damaged";
  }
  return "unknown";
}

std::variant<RecordPtr, RetryFault> FromRetryTopic(const Record& record) {
  auto decoded = DecodeRetryHeaders(record.headers());
  if (const auto* fault = std::get_if<RetryFault>(&decoded)) return *fault;
  auto& retry = std::get<RetryHeaders>(decoded);
  const std::vector<HeaderView> own(record.headers().begin(),
                                    record.headers().begin() + static_cast<std::ptrdiff_t>(retry.own));
  Record::Parts parts;
  parts.offset = record.offset();
  parts.timestamp_ms = retry.state.source_timestamp_ms;
  parts.key = record.key();
  parts.value = record.value();
  parts.headers = &own;
  parts.retry = std::make_shared<const RetryState>(std::move(retry.state));
  return Record::Copy(parts);
}

RetryState StartAnew(std::string subscription, TopicPartition source, Offset offset, std::int64_t timestamp_ms) {
  RetryState state;
  state.subscription = std::move(subscription);
  state.source = std::move(source);
  state.source_offset = offset;
  state.source_timestamp_ms = timestamp_ms;
  state.fresh_ttl = true;
  return state;
}

std::string RetryTopic(std::string_view fleet) { return std::string(fleet) + ".retry"; }

std::int32_t RetryPartition(std::string_view subscription, std::int32_t partitions) {
  return static_cast<std::int32_t>(StableHash(subscription) % static_cast<std::uint64_t>(partitions));
}

}  // namespace posthorn::delivery
