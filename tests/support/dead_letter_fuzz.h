#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "worker/kafka/dead_letter_headers.h"

namespace posthorn::test {

/// One input of a fuzzer (LLVMFuzzerTestOneInput's signature but for the result): headers as `name NUL value NUL`..., a
/// value of one byte 1 being null. What is accepted must survive being written again. Ends the process otherwise.
inline void FuzzDeadLetterHeaders(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(data, data + size);
  const std::string_view all(bytes);
  std::vector<delivery::HeaderView> headers;
  for (std::size_t at = 0; at < all.size();) {
    const auto next = [&] {
      const auto end = std::min(all.find('\0', at), all.size());
      const auto part = all.substr(at, end - at);
      at = end + 1;
      return part;
    };
    const auto name = next();
    const auto value = at < all.size() ? next() : std::string_view();
    headers.push_back({name, value == "\x01" ? std::nullopt : std::optional(value)});
  }
  const auto read = kafka::ReadDeadLetterHeaders(headers);
  const auto* facts = std::get_if<kafka::DeadLetterFacts>(&read);
  if (facts == nullptr) {
    if (std::get<std::string>(read).empty()) std::abort();
    return;
  }
  delivery::Record::Parts parts;
  parts.offset = facts->source_offset;
  parts.headers = &headers;
  delivery::DeadLetter letter;
  letter.record = delivery::Record::Copy(parts);
  letter.partition = facts->source;
  letter.subscription = facts->subscription;
  letter.reason = facts->reason;
  letter.attempts = facts->attempts;
  letter.first_attempt = facts->first_attempt;
  letter.last_attempt = facts->last_attempt;
  letter.last_status = facts->last_status;
  letter.last_error = facts->last_error;
  const auto written = kafka::DeadLetterHeaders(letter);
  std::vector<delivery::HeaderView> views;
  for (const auto& [name, value] : written) {
    views.push_back({name, value ? std::optional<std::string_view>(*value) : std::nullopt});
  }
  const auto again = kafka::ReadDeadLetterHeaders(views);
  const auto* same = std::get_if<kafka::DeadLetterFacts>(&again);
  // Only milliseconds are written, and of status and error the first.
  const auto whole = [](std::optional<runtime::WallTime> time) {
    return time ? std::optional(std::chrono::floor<std::chrono::milliseconds>(*time)) : std::nullopt;
  };
  if (same == nullptr || same->source != facts->source || same->source_offset != facts->source_offset ||
      same->subscription != facts->subscription || same->attempts != facts->attempts || same->reason != facts->reason ||
      whole(same->first_attempt) != whole(facts->first_attempt) ||
      whole(same->last_attempt) != whole(facts->last_attempt) || same->last_status != facts->last_status) {
    std::fprintf(stderr, "dead letter: another when written again\n");
    std::abort();
  }
}

}  // namespace posthorn::test
