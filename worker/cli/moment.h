#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "worker/delivery/record.h"
#include "worker/runtime/clock.h"

namespace posthorn::cli {

/// Times and places as they are given to commands.
///
/// Errors   Unset, and one line in `*why` that says what the text should look like.

/// `2026-11-21T08:15:30Z` (RFC 3339), or how long before `now`: `10min`, `36h`.
[[nodiscard]] std::optional<runtime::WallTime> ParseMoment(std::string_view text, runtime::WallTime now,
                                                           std::string* why);

/// `P:O`: partition and offset.
[[nodiscard]] std::optional<std::pair<std::int32_t, delivery::Offset>> ParsePlace(std::string_view text,
                                                                                  std::string* why);

}  // namespace posthorn::cli
