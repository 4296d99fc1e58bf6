#include "ratelimit/max_rate.h"

#include <array>
#include <numeric>

namespace posthorn::ratelimit {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t seconds;
};
constexpr std::array<Unit, 3> kUnits{{{"s", 1}, {"min", 60}, {"h", 3600}}};

constexpr std::int64_t kDecimalScale = 1'000'000;  // 10^kMaxDecimals
// The largest count per hour is 7.2e12 (13 digits), scaled 7.2e18: below 2^63, so no digit string of this length
// overflows the 128 bits it is read into, and the range check afterwards is exact.
constexpr std::size_t kMaxDigits = 13;

std::nullopt_t Fail(std::string* why, std::string_view text, std::string_view reason) {
  if (why != nullptr) {
    constexpr std::size_t kShown = 40;
    why->assign(1, '\'').append(text.substr(0, kShown)).append(text.size() > kShown ? "...' " : "' ").append(reason);
    // One line whatever the text holds.
    for (char& c : *why) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
  }
  return std::nullopt;
}

std::string_view TakeDigits(std::string_view& rest) {
  std::size_t n = 0;
  while (n < rest.size() && rest[n] >= '0' && rest[n] <= '9') ++n;
  const auto digits = rest.substr(0, n);
  rest.remove_prefix(n);
  return digits;
}

}  // namespace

std::optional<MaxRate> MaxRate::Parse(std::string_view text, std::string* why) {
  constexpr std::string_view kForms = "is not a rate: write it like 500/s, 0.2/s, 30/min or 1000/h";
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '-') return Fail(why, text, "is negative: a rate is 0 or more");

  std::string_view whole = TakeDigits(rest);
  std::string_view decimals;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    decimals = TakeDigits(rest);
    if (decimals.empty()) return Fail(why, text, kForms);
  }
  if (whole.empty()) return Fail(why, text, kForms);
  while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
  while (!decimals.empty() && decimals.back() == '0') decimals.remove_suffix(1);
  if (decimals.size() > kMaxDecimals) return Fail(why, text, "has more than 6 decimals: use a longer unit (min, h)");

  const bool zero = whole.empty() && decimals.empty();
  std::int64_t unit_seconds = 0;
  if (rest.empty()) {
    if (!zero) return Fail(why, text, "has no unit: write " + std::string(text.substr(0, 20)) + "/s, /min or /h");
    unit_seconds = 1;
  } else {
    for (const auto& unit : kUnits) {
      if (rest.size() == unit.name.size() + 1 && rest.front() == '/' && rest.substr(1) == unit.name) {
        unit_seconds = unit.seconds;
      }
    }
    if (unit_seconds == 0) return Fail(why, text, kForms);
  }
  constexpr std::string_view kTooMuch = "is too much: at most 2000000000/s";
  if (whole.size() > kMaxDigits) return Fail(why, text, kTooMuch);

  Wide scaled = 0;
  for (const char c : whole) scaled = scaled * 10 + (c - '0');
  scaled *= kDecimalScale;
  std::int64_t place = kDecimalScale / 10;
  for (const char c : decimals) {
    scaled += Wide{place} * (c - '0');
    place /= 10;
  }
  const std::int64_t denominator = kDecimalScale * unit_seconds;
  if (scaled > Wide{kMaxPerSecond} * denominator) return Fail(why, text, kTooMuch);
  const auto numerator = static_cast<std::int64_t>(scaled);
  const auto common = std::gcd(numerator, denominator);
  return MaxRate(numerator / common, denominator / common);
}

Wide MaxRate::CumulativeAt(Label w) const { return FloorDiv(Wide{w} * numerator_, denominator_); }

std::int64_t MaxRate::Total(Label w) const {
  const Wide before = FloorDiv(Wide{w} * numerator_, denominator_);
  const Wide after = FloorDiv((Wide{w} + 1) * numerator_, denominator_);
  return static_cast<std::int64_t>(after - before);
}

Label MaxRate::FirstLabelReaching(Wide permits) const {
  return static_cast<Label>(-FloorDiv(-permits * denominator_, numerator_));
}

double MaxRate::PerSecond() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }

std::string MaxRate::ToString() const {
  if (IsZero()) return "0";
  for (const auto& unit : kUnits) {
    const Wide scaled = Wide{numerator_} * unit.seconds * kDecimalScale;
    if (scaled % denominator_ != 0) continue;
    const auto value = static_cast<std::int64_t>(scaled / denominator_);
    std::string text = std::to_string(value / kDecimalScale);
    std::string decimals = std::to_string(value % kDecimalScale);
    decimals.insert(0, kMaxDecimals - decimals.size(), '0');
    while (!decimals.empty() && decimals.back() == '0') decimals.pop_back();
    if (!decimals.empty()) text += "." + decimals;
    return text.append("/").append(unit.name);
  }
  // Every value comes from Parse, and is a decimal in the unit it was written in.
  __builtin_unreachable();
}

}  // namespace posthorn::ratelimit
