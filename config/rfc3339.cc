#include "config/rfc3339.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace posthorn::config {
namespace {

using ratelimit::Nanoseconds;
using ratelimit::WallTime;

constexpr int kNoNumber = -1;

/// Takes what it reads off the front of the text; a failure sticks.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : left_(text) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool AtEnd() const { return ok_ && left_.empty(); }
  [[nodiscard]] char Peek() const { return left_.empty() ? '\0' : left_.front(); }

  int Digits(std::size_t count) {
    if (left_.size() < count) return Fail();
    int value = 0;
    for (const char c : left_.substr(0, count)) {
      if (c < '0' || c > '9') return Fail();
      value = value * 10 + (c - '0');
    }
    left_.remove_prefix(count);
    return value;
  }
  void Expect(char either, char other) {
    if (Peek() != either && Peek() != other) {
      Fail();
    } else {
      left_.remove_prefix(1);
    }
  }
  void Expect(char c) { Expect(c, c); }
  /// What comes after the point, whatever its length.
  Nanoseconds Fraction() {
    std::int64_t nanoseconds = 0;
    std::int64_t unit = 100'000'000;
    std::size_t count = 0;
    for (; Peek() >= '0' && Peek() <= '9'; ++count, unit /= 10) {
      nanoseconds += unit * (Peek() - '0');
      left_.remove_prefix(1);
    }
    if (count == 0) Fail();
    return Nanoseconds(nanoseconds);
  }

 private:
  int Fail() {
    ok_ = false;
    return kNoNumber;
  }
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace

std::string FormatRfc3339(WallTime time) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t whole = seconds.count();
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>((since - seconds).count()));
  return text.data();
}

std::optional<WallTime> ParseRfc3339(std::string_view text) {
  Scanner scan(text);
  const int year = scan.Digits(4);
  scan.Expect('-');
  const int month = scan.Digits(2);
  scan.Expect('-');
  const int day = scan.Digits(2);
  scan.Expect('T', 't');
  const int hour = scan.Digits(2);
  scan.Expect(':');
  const int minute = scan.Digits(2);
  scan.Expect(':');
  const int second = scan.Digits(2);
  Nanoseconds fraction{0};
  if (scan.Peek() == '.') {
    scan.Expect('.');
    fraction = scan.Fraction();
  }
  std::chrono::minutes east{0};
  if (scan.Peek() == '+' || scan.Peek() == '-') {
    const bool west = scan.Peek() == '-';
    scan.Expect('+', '-');
    const int hours = scan.Digits(2);
    scan.Expect(':');
    const int minutes = scan.Digits(2);
    if (hours > 23 || minutes > 59) return std::nullopt;
    east = std::chrono::minutes((west ? -1 : 1) * (hours * 60 + minutes));
  } else {
    scan.Expect('Z', 'z');
  }
  // A leap second (60) is the next minute's first.
  if (!scan.AtEnd() || year < 1970 || year > 2199 || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return WallTime(std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second) + fraction - east);
}

}  // namespace posthorn::config
