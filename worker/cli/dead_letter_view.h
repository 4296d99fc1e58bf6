#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/dead_letter_headers.h"

namespace posthorn::cli {

/// A record of the dead-letter topic: what its headers say, or why they cannot be believed.
struct FoundLetter {
  std::int32_t partition = 0;  // of the dead-letter topic
  delivery::RecordPtr record;
  std::variant<kafka::DeadLetterFacts, std::string> said;

  FoundLetter(std::int32_t in, delivery::RecordPtr found)
      : partition(in), record(std::move(found)), said(kafka::ReadDeadLetterHeaders(record->headers())) {}
  [[nodiscard]] const kafka::DeadLetterFacts* facts() const { return std::get_if<kafka::DeadLetterFacts>(&said); }
};

/// Which ones are meant. A record that is no dead letter is meant when neither subscription nor reason is asked for.
struct LetterFilter {
  std::optional<std::string> subscription;
  std::optional<delivery::DeadLetterReason> reason;
  std::optional<runtime::WallTime> since;  // when it was written, which is when the message was given up
  std::optional<runtime::WallTime> until;  // before
  std::vector<std::pair<std::int32_t, delivery::Offset>> places;  // in the dead-letter topic; empty: anywhere
  [[nodiscard]] bool Matches(const FoundLetter& letter) const;
};

/// Everything shown is printable: what somebody wrote into a record does not reach a terminal as it is.

/// One line without its end.
[[nodiscard]] std::string ToLine(const FoundLetter& letter);
/// Several lines: all that is known, headers, key and value.
[[nodiscard]] std::string ToText(const FoundLetter& letter);
/// One JSON object without a line's end; `whole`: with headers, key and value (`..._hex` what is no UTF-8).
[[nodiscard]] std::string ToJson(const FoundLetter& letter, bool whole);

}  // namespace posthorn::cli
