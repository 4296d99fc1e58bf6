#include "config/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace posthorn::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array<Unit, 4> kDurations{{{"h", 3'600'000}, {"min", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr std::array<Unit, 4> kSizes{{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};

void Explain(std::string* why, std::string text) {
  if (why != nullptr) *why = std::move(text);
}

// `<digits>[.<digits>]<unit>` as a whole multiple of the smallest unit, in integers: no rounding on the way.
template <std::size_t N>
std::optional<std::int64_t> ParseWithUnit(std::string_view text, const std::array<Unit, N>& units,
                                          std::string_view needed, std::string* why) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || text.empty()) {
    Explain(why, "needs " + std::string(needed));
    return std::nullopt;
  }
  if (end == std::string_view::npos) {
    Explain(why, "a bare number has no unit: needs " + std::string(needed));
    return std::nullopt;
  }
  const std::string_view number = text.substr(0, end);
  const std::string_view unit_name = text.substr(end);
  const Unit* unit = nullptr;
  for (const Unit& known : units) {
    if (known.name == unit_name) unit = &known;
  }
  if (unit == nullptr) {
    Explain(why, "unknown unit `" + std::string(unit_name) + "`: needs " + std::string(needed));
    return std::nullopt;
  }
  const std::size_t dot = number.find('.');
  const std::string_view whole_text = number.substr(0, dot);
  const std::string_view part_text = dot == std::string_view::npos ? std::string_view() : number.substr(dot + 1);
  const bool part_missing = dot != std::string_view::npos && part_text.empty();
  if (whole_text.empty() || part_missing || part_text.find('.') != std::string_view::npos) {
    Explain(why, "not a number: needs " + std::string(needed));
    return std::nullopt;
  }
  std::int64_t whole = 0;
  const auto parsed = std::from_chars(whole_text.data(), whole_text.data() + whole_text.size(), whole);
  if (parsed.ec != std::errc() || whole > std::numeric_limits<std::int64_t>::max() / unit->factor - 1) {
    Explain(why, "too large");
    return std::nullopt;
  }
  std::int64_t part = 0;
  std::int64_t scale = 1;
  constexpr std::size_t kMostDecimals = 6;
  if (part_text.size() > kMostDecimals) {
    Explain(why, "at most 6 decimals");
    return std::nullopt;
  }
  for (const char digit : part_text) {
    part = part * 10 + (digit - '0');
    scale *= 10;
  }
  if (part * unit->factor % scale != 0) {
    Explain(why, "finer than the smallest unit, " + std::string(units.back().name));
    return std::nullopt;
  }
  return whole * unit->factor + part * unit->factor / scale;
}

template <std::size_t N>
std::string FormatWithUnit(std::int64_t amount, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (amount != 0 && amount % unit.factor == 0) return std::to_string(amount / unit.factor) + std::string(unit.name);
  }
  return "0" + std::string(units.back().name);
}

}  // namespace

std::optional<Milliseconds> ParseDuration(std::string_view text, std::string* why) {
  const auto amount = ParseWithUnit(text, kDurations, "a duration like 200ms, 5s, 10min or 1h", why);
  if (!amount) return std::nullopt;
  return Milliseconds(*amount);
}

std::string FormatDuration(Milliseconds duration) { return FormatWithUnit(duration.count(), kDurations); }

std::optional<std::uint64_t> ParseSize(std::string_view text, std::string* why) {
  const auto amount = ParseWithUnit(text, kSizes, "a size like 64KiB, 1MiB or 2GiB", why);
  if (!amount) return std::nullopt;
  return static_cast<std::uint64_t>(*amount);
}

std::string FormatSize(std::uint64_t bytes) { return FormatWithUnit(static_cast<std::int64_t>(bytes), kSizes); }

std::optional<std::int64_t> ParseInteger(std::string_view text, std::string* why) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) {
    Explain(why, "too large");
    return std::nullopt;
  }
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    Explain(why, "needs a whole number");
    return std::nullopt;
  }
  return value;
}

std::optional<double> ParseNumber(std::string_view text, std::string* why) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value)) {
    Explain(why, "needs a number");
    return std::nullopt;
  }
  return value;
}

std::string FormatNumber(double number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return std::string(buffer.data(), end.ptr);
}

}  // namespace posthorn::config
