#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ratelimit/time.h"

namespace posthorn::config {

/// Times as people and records write them: RFC 3339.

/// UTC with milliseconds: 2026-11-21T08:15:30.042Z.
[[nodiscard]] std::string FormatRfc3339(ratelimit::WallTime time);

/// `2026-11-21T08:15:30Z`, with a fraction and another offset (`+01:00`) where wanted; the years 1970 to 2199.
/// Errors   Unset for everything else, dates that do not exist included.
[[nodiscard]] std::optional<ratelimit::WallTime> ParseRfc3339(std::string_view text);

}  // namespace posthorn::config
