#include "worker/kafka/dead_letter_headers.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "config/rfc3339.h"
#include "config/rules.h"

namespace posthorn::kafka {
namespace {

using delivery::HeaderView;

constexpr std::string_view kReason = "posthorn-reason";
constexpr std::string_view kSubscription = "posthorn-subscription";
constexpr std::string_view kTopic = "posthorn-topic";
constexpr std::string_view kPartition = "posthorn-partition";
constexpr std::string_view kOffset = "posthorn-offset";
constexpr std::string_view kAttempts = "posthorn-attempts";
constexpr std::string_view kFirstAttempt = "posthorn-first-attempt";
constexpr std::string_view kLastAttempt = "posthorn-last-attempt";
constexpr std::string_view kLastStatus = "posthorn-last-status";
constexpr std::string_view kLastError = "posthorn-last-error";
constexpr std::string_view kValueSize = "posthorn-value-size";
constexpr std::array kOurs{kReason,       kSubscription, kTopic,      kPartition, kOffset,   kAttempts,
                           kFirstAttempt, kLastAttempt,  kLastStatus, kLastError, kValueSize};

/// Reads one header after the other; the first that is wrong is what `problem` says.
class FieldReader {
 public:
  explicit FieldReader(const std::vector<HeaderView>& headers) : headers_(headers) {}

  std::optional<std::string_view> Find(std::string_view name) {
    std::optional<std::string_view> found;
    for (const auto& header : headers_) {
      if (header.name != name) continue;
      if (found || !header.value) {
        Wrong(name, found ? "is there twice" : "is null");
        return std::nullopt;
      }
      found = header.value;
    }
    return found;
  }
  std::string_view Need(std::string_view name) {
    const auto found = Find(name);
    if (!found) Wrong(name, "is missing");
    return found.value_or(std::string_view());
  }
  template <typename Number>
  Number NeedNumber(std::string_view name, Number lowest, Number highest) {
    return ToNumber(name, Need(name), lowest, highest);
  }
  template <typename Number>
  Number ToNumber(std::string_view name, std::string_view text, Number lowest, Number highest) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < lowest || number > highest) {
      Wrong(name, "is no number, or out of range");
    }
    return number;
  }
  std::optional<runtime::WallTime> Time(std::string_view name) {
    const auto text = Find(name);
    if (!text) return std::nullopt;
    const auto time = config::ParseRfc3339(*text);
    if (!time) Wrong(name, "is no time");
    return time;
  }
  void Wrong(std::string_view name, std::string_view what) {
    if (problem_.empty()) problem_.append(name).append(" ").append(what);
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const std::vector<HeaderView>& headers_;
  std::string problem_;
};

}  // namespace

bool IsDeadLetterHeader(std::string_view name) { return std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end(); }

HeaderList DeadLetterHeaders(const delivery::DeadLetter& letter) {
  HeaderList headers;
  for (const auto& header : letter.record->headers()) {
    if (IsDeadLetterHeader(header.name)) continue;
    headers.emplace_back(std::string(header.name),
                         header.value ? std::optional(std::string(*header.value)) : std::nullopt);
  }
  const auto add = [&](std::string_view name, std::string value) {
    headers.emplace_back(std::string(name), std::move(value));
  };
  add(kReason, delivery::ToString(letter.reason));
  add(kSubscription, letter.subscription);
  add(kTopic, letter.partition.topic);
  add(kPartition, std::to_string(letter.partition.partition));
  add(kOffset, std::to_string(letter.record->source_offset()));
  add(kAttempts, std::to_string(letter.attempts));
  if (letter.first_attempt) add(kFirstAttempt, config::FormatRfc3339(*letter.first_attempt));
  if (letter.last_attempt) add(kLastAttempt, config::FormatRfc3339(*letter.last_attempt));
  if (letter.last_status != 0)
    add(kLastStatus, std::to_string(letter.last_status));
  else if (!letter.last_error.empty())
    add(kLastError, letter.last_error);
  if (letter.without_value)
    add(kValueSize, std::to_string(letter.record->value() ? letter.record->value()->size() : 0));
  return headers;
}

std::variant<DeadLetterFacts, std::string> ReadDeadLetterHeaders(const std::vector<HeaderView>& headers) {
  FieldReader reader(headers);
  DeadLetterFacts facts;
  const auto reason = delivery::DeadLetterReasonOf(reader.Need(kReason));
  if (!reason) reader.Wrong(kReason, "is none of Posthorn's");
  facts.reason = reason.value_or(facts.reason);
  facts.subscription = reader.Need(kSubscription);
  if (!config::CheckName(facts.subscription).empty()) reader.Wrong(kSubscription, "is no subscription's name");
  facts.source.topic = reader.Need(kTopic);
  if (!config::CheckTopic(facts.source.topic).empty()) reader.Wrong(kTopic, "is no topic's name");
  facts.source.partition = reader.NeedNumber<std::int32_t>(kPartition, 0, INT32_MAX);
  facts.source_offset = reader.NeedNumber<delivery::Offset>(kOffset, 0, INT64_MAX - 1);
  facts.attempts = reader.NeedNumber<std::uint32_t>(kAttempts, 0, UINT32_MAX);
  facts.first_attempt = reader.Time(kFirstAttempt);
  facts.last_attempt = reader.Time(kLastAttempt);
  if (const auto status = reader.Find(kLastStatus)) facts.last_status = reader.ToNumber(kLastStatus, *status, 1, 999);
  facts.last_error = reader.Find(kLastError).value_or(std::string_view());
  if (!reader.problem().empty()) return reader.problem();
  return facts;
}

}  // namespace posthorn::kafka
