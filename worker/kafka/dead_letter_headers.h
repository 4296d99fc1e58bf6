#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "worker/delivery/dead_letter_sink.h"

namespace posthorn::kafka {

using HeaderList = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// Headers of a dead letter: the record's own, in order, then those of Posthorn. A record that was a dead letter before
/// does not keep what Posthorn said then.
HeaderList DeadLetterHeaders(const delivery::DeadLetter& letter);

/// True for the headers that Posthorn adds to a dead letter.
[[nodiscard]] bool IsDeadLetterHeader(std::string_view name);

/// What a dead letter's headers say.
struct DeadLetterFacts {
  delivery::DeadLetterReason reason = delivery::DeadLetterReason::kExpired;
  std::string subscription;
  delivery::TopicPartition source;
  delivery::Offset source_offset = 0;
  std::uint32_t attempts = 0;
  std::optional<runtime::WallTime> first_attempt;
  std::optional<runtime::WallTime> last_attempt;
  int last_status = 0;     // 0: none
  std::string last_error;  // empty: none; as it was written, perhaps not printable
  bool operator==(const DeadLetterFacts&) const = default;
};

/// Reads what DeadLetterHeaders wrote, among whatever other headers. Of anything else it says what is wrong: the topic
/// is open to everybody, and what stands in a record decides where it would be sent again. Errors   Never throws,
/// whatever the headers.
[[nodiscard]] std::variant<DeadLetterFacts, std::string> ReadDeadLetterHeaders(
    const std::vector<delivery::HeaderView>& headers);

}  // namespace posthorn::kafka
