#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "worker/delivery/stable_hash.h"
#include "worker/fleet/control_wire.h"

namespace posthorn::test {

/// One input of a fuzzer, as a control record without its checksum, which no fuzzer would guess. What is accepted must
/// come back the same when it is written again. Ends the process otherwise.
inline void FuzzControlRecord(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto check = delivery::StableHash(bytes);
  for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(check >> (8 * i));
  const auto require = [](bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "control record: %s\n", what);
    std::abort();
  };
  const auto report = fleet::DecodeReport(bytes);
  if (const auto* message = std::get_if<fleet::ReportMessage>(&report)) {
    require(fleet::DecodeReport(fleet::Encode(*message)) == report, "another report when written again");
  }
  const auto log = fleet::DecodeLog(bytes);
  if (const auto* message = std::get_if<fleet::LogMessage>(&log)) {
    require(fleet::DecodeLog(fleet::Encode(*message)) == log, "other grants when written again");
    require(message->records.size() <= size, "more records than bytes");
  }
  require(!(std::holds_alternative<fleet::ReportMessage>(report) && std::holds_alternative<fleet::LogMessage>(log)),
          "both a report and grants");
}

}  // namespace posthorn::test
