#include "worker/kafka/dead_letter_headers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace posthorn::kafka {
namespace {

constexpr std::array<std::string_view, 11> kOurs{
    "posthorn-reason",      "posthorn-subscription", "posthorn-topic",         "posthorn-partition",
    "posthorn-offset",      "posthorn-attempts",     "posthorn-first-attempt", "posthorn-last-attempt",
    "posthorn-last-status", "posthorn-last-error",   "posthorn-value-size"};

}  // namespace

std::string FormatTime(runtime::WallTime time) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t whole = seconds.count();
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>((since - seconds).count()));
  return text.data();
}

HeaderList DeadLetterHeaders(const delivery::DeadLetter& letter) {
  HeaderList headers;
  for (const auto& header : letter.record->headers()) {
    if (std::find(kOurs.begin(), kOurs.end(), header.name) != kOurs.end()) continue;
    headers.emplace_back(std::string(header.name),
                         header.value ? std::optional(std::string(*header.value)) : std::nullopt);
  }
  const auto add = [&](const char* name, std::string value) { headers.emplace_back(name, std::move(value)); };
  add("posthorn-reason", delivery::ToString(letter.reason));
  add("posthorn-subscription", letter.subscription);
  add("posthorn-topic", letter.partition.topic);
  add("posthorn-partition", std::to_string(letter.partition.partition));
  add("posthorn-offset", std::to_string(letter.record->source_offset()));
  add("posthorn-attempts", std::to_string(letter.attempts));
  if (letter.first_attempt) add("posthorn-first-attempt", FormatTime(*letter.first_attempt));
  if (letter.last_attempt) add("posthorn-last-attempt", FormatTime(*letter.last_attempt));
  if (letter.last_status != 0)
    add("posthorn-last-status", std::to_string(letter.last_status));
  else if (!letter.last_error.empty())
    add("posthorn-last-error", letter.last_error);
  if (letter.without_value)
    add("posthorn-value-size", std::to_string(letter.record->value() ? letter.record->value()->size() : 0));
  return headers;
}

}  // namespace posthorn::kafka
