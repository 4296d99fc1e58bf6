#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <variant>
#include <vector>

#include "worker/delivery/retry_record.h"

namespace posthorn::test {

/// One input of a fuzzer, as the headers of a record: `name NUL value NUL ...`, a value that begins with 0x01 is null.
/// What is accepted must come back the same when it is written again. Ends the process otherwise.
inline void FuzzRetryHeaders(const std::uint8_t* data, std::size_t size) {
  using namespace delivery;
  std::vector<std::string_view> parts;
  for (std::string_view left(reinterpret_cast<const char*>(data), size); !left.empty();) {
    const auto end = std::min(left.find('\0'), left.size());
    parts.push_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  std::vector<HeaderView> headers;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    HeaderView header;
    header.name = parts[i];
    if (!parts[i + 1].starts_with('\1')) header.value = parts[i + 1];
    headers.push_back(header);
  }
  const auto decoded = DecodeRetryHeaders(headers);
  const auto* retry = std::get_if<RetryHeaders>(&decoded);
  if (retry == nullptr) return;
  const auto require = [](bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "retry headers: %s\n", what);
    std::abort();
  };
  require(retry->own < headers.size(), "more of the message's own than there are");
  require(!retry->state.subscription.empty() && !retry->state.source.topic.empty(), "nobody's");
  require(retry->state.source_offset >= 0 && retry->state.source.partition >= 0, "a negative position");
  const std::vector<HeaderView> own(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(retry->own));
  const auto written = EncodeRetryHeaders(retry->state, own);
  std::vector<HeaderView> views;
  for (const auto& [name, value] : written) views.push_back({name, value});
  const auto again = DecodeRetryHeaders(views);
  require(std::holds_alternative<RetryHeaders>(again) && std::get<RetryHeaders>(again) == *retry,
          "another when written again");
}

}  // namespace posthorn::test
