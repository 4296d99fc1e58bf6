#include "worker/cli/moment.h"

#include <charconv>
#include <limits>

#include "config/rfc3339.h"
#include "config/units.h"

namespace posthorn::cli {
namespace {

template <typename Number>
bool Parse(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0 &&
         *number < std::numeric_limits<Number>::max();
}

}  // namespace

std::optional<runtime::WallTime> ParseMoment(std::string_view text, runtime::WallTime now, std::string* why) {
  if (const auto time = config::ParseRfc3339(text)) return time;
  if (const auto back = config::ParseDuration(text, nullptr); back && back->count() >= 0) {
    // Not before 1970, whatever is asked for; nanoseconds would run over.
    const auto since = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch());
    return *back >= since ? runtime::WallTime() : now - *back;
  }
  *why = "`" + std::string(text) + "` is no time: 2026-11-21T08:15:30Z, or how long ago: 10min, 36h";
  return std::nullopt;
}

std::optional<std::pair<std::int32_t, delivery::Offset>> ParsePlace(std::string_view text, std::string* why) {
  const auto colon = text.find(':');
  std::pair<std::int32_t, delivery::Offset> place;
  if (colon != std::string_view::npos && Parse(text.substr(0, colon), &place.first) &&
      Parse(text.substr(colon + 1), &place.second)) {
    return place;
  }
  *why = "`" + std::string(text) + "` is no PARTITION:OFFSET, as 3:1500";
  return std::nullopt;
}

}  // namespace posthorn::cli
