#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ratelimit/leases/messages.h"

namespace posthorn::fleet {

/// A record of `<fleet>.demand`: what one worker tells the coordinator of one control partition.
struct ReportMessage {
  std::string sender;  // instance name, for display
  ratelimit::Report report;
  bool operator==(const ReportMessage&) const = default;
};

/// A record of `<fleet>.grants`: what a coordinator appends at once, in this order.
struct LogMessage {
  std::string sender;
  std::vector<ratelimit::ControlRecord> records;
  bool operator==(const LogMessage&) const = default;
};

enum class WireFault : std::uint8_t {
  kForeign,  // none of ours
  kNewer,    // of a version that is not known here
  kDamaged,  // ours, but its checksum or its structure is wrong
};
const char* ToString(WireFault fault);

/// The form of control records in Kafka: three letters, version, kind, fields as variable-length numbers, checksum.
///
/// Whoever reads one that it cannot read leaves it out and counts it: a report that is missing delays a share, a grant
/// that is missing is renewed in the next window. So a newer version may add what older ones do not know under a
/// version of its own; records of version 1 stay readable. Version 2 is of log messages with terms that change at a
/// label, and of those alone.
///
/// Threads  Functions of their arguments.
/// Errors   A WireFault; whatever the bytes are, nothing is read beyond them and no more is allocated than a small
///          multiple of their size. Values are taken as they are: whether they make sense is for the state machines.
/// Cost     About 40 bytes for each further grant of a limit with 10 windows.
[[nodiscard]] std::string Encode(const ReportMessage& message);
[[nodiscard]] std::string Encode(const LogMessage& message);
[[nodiscard]] std::variant<ReportMessage, WireFault> DecodeReport(std::string_view bytes);
[[nodiscard]] std::variant<LogMessage, WireFault> DecodeLog(std::string_view bytes);

}  // namespace posthorn::fleet
