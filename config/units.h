#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"

namespace posthorn::config {

/// Texts with units, both ways. A bare number is never taken where a unit is needed.
///
/// Errors  nullopt, and one line in `*why` (which may be null) that says what the text should look like.

/// `200ms`, `5s`, `10min`, `1h`; decimals where they make whole milliseconds.
std::optional<Milliseconds> ParseDuration(std::string_view text, std::string* why);
std::string FormatDuration(Milliseconds duration);

/// `512B`, `64KiB`, `1MiB`, `2GiB`.
std::optional<std::uint64_t> ParseSize(std::string_view text, std::string* why);
std::string FormatSize(std::uint64_t bytes);

/// `-3`, `64`.
std::optional<std::int64_t> ParseInteger(std::string_view text, std::string* why);

/// `2`, `1.5`.
std::optional<double> ParseNumber(std::string_view text, std::string* why);
std::string FormatNumber(double number);

}  // namespace posthorn::config
