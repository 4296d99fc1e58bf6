#include "worker/http/response_class.h"

#include <array>
#include <cstdint>

#include "worker/http/blanks.h"

namespace posthorn::http {

using delivery::Verdict;

Verdict Classify(int status, bool retry_client_errors) {
  if (status >= 200 && status <= 299) return Verdict::kDelivered;
  switch (status) {
    case 429:
    case 502:
    case 503:
    case 504:
      return Verdict::kOverload;
    case 408:
    case 425:
      return Verdict::kRetry;
    case 410:
      return Verdict::kRejected;
    default:
      break;
  }
  if (status >= 400 && status <= 499) return retry_client_errors ? Verdict::kRetry : Verdict::kRejected;
  return Verdict::kRetry;
}

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Takes the parts of a date off the front of a text; `ok` turns false at the first thing that does not fit.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  void Expect(std::string_view literal) {
    if (rest_.substr(0, literal.size()) == literal) {
      rest_.remove_prefix(literal.size());
    } else {
      ok_ = false;
    }
  }

  int Digits(std::size_t count) {
    if (rest_.size() < count) ok_ = false;
    int value = 0;
    for (std::size_t i = 0; ok_ && i < count; ++i) {
      if (!IsDigit(rest_[i])) ok_ = false;
      value = value * 10 + (rest_[i] - '0');
    }
    if (ok_) rest_.remove_prefix(count);
    return ok_ ? value : 0;
  }

  /// A day of the month in two columns, the first of which may be a space.
  int PaddedDay() {
    if (!rest_.empty() && rest_.front() == ' ') {
      rest_.remove_prefix(1);
      return Digits(1);
    }
    return Digits(2);
  }

  /// Which of `names` stands here, from 0.
  template <std::size_t N>
  int OneOf(const std::array<std::string_view, N>& names) {
    for (std::size_t i = 0; i < N; ++i) {
      if (rest_.substr(0, names[i].size()) == names[i]) {
        rest_.remove_prefix(names[i].size());
        return static_cast<int>(i);
      }
    }
    ok_ = false;
    return 0;
  }

  [[nodiscard]] bool AtEnd() const { return ok_ && rest_.empty(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

constexpr std::array<std::string_view, 7> kShortDays{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> kLongDays{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                    "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct DateTime {
  int year = 0;
  int month = 0;  // from 1
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

void TimeOfDay(Scanner& in, DateTime& out) {
  out.hour = in.Digits(2);
  in.Expect(":");
  out.minute = in.Digits(2);
  in.Expect(":");
  out.second = in.Digits(2);
}

std::optional<DateTime> ParseImfFixdate(std::string_view text) {
  Scanner in(text);
  DateTime out;
  in.OneOf(kShortDays);
  in.Expect(", ");
  out.day = in.Digits(2);
  in.Expect(" ");
  out.month = in.OneOf(kMonths) + 1;
  in.Expect(" ");
  out.year = in.Digits(4);
  in.Expect(" ");
  TimeOfDay(in, out);
  in.Expect(" GMT");
  if (!in.AtEnd()) return std::nullopt;
  return out;
}

int YearOf(ratelimit::WallTime t) {
  const auto days = std::chrono::floor<std::chrono::days>(t.time_since_epoch());
  return static_cast<int>(std::chrono::year_month_day(std::chrono::sys_days(days)).year());
}

std::optional<DateTime> ParseRfc850(std::string_view text, ratelimit::WallTime now) {
  Scanner in(text);
  DateTime out;
  in.OneOf(kLongDays);
  in.Expect(", ");
  out.day = in.Digits(2);
  in.Expect("-");
  out.month = in.OneOf(kMonths) + 1;
  in.Expect("-");
  const int two_digits = in.Digits(2);
  in.Expect(" ");
  TimeOfDay(in, out);
  in.Expect(" GMT");
  if (!in.AtEnd()) return std::nullopt;
  const int latest = YearOf(now) + 50;
  out.year = latest - (latest - two_digits) % 100;
  return out;
}

std::optional<DateTime> ParseAsctime(std::string_view text) {
  Scanner in(text);
  DateTime out;
  in.OneOf(kShortDays);
  in.Expect(" ");
  out.month = in.OneOf(kMonths) + 1;
  in.Expect(" ");
  out.day = in.PaddedDay();
  in.Expect(" ");
  TimeOfDay(in, out);
  in.Expect(" ");
  out.year = in.Digits(4);
  if (!in.AtEnd()) return std::nullopt;
  return out;
}

/// Seconds since 1970; nullopt for a date that does not exist. A leap second counts as the one after it.
std::optional<std::int64_t> UnixSeconds(const DateTime& d) {
  const std::chrono::year_month_day date(std::chrono::year(d.year), std::chrono::month(static_cast<unsigned>(d.month)),
                                         std::chrono::day(static_cast<unsigned>(d.day)));
  if (!date.ok() || d.hour > 23 || d.minute > 59 || d.second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86'400 + d.hour * 3'600 + d.minute * 60 + d.second;
}

}  // namespace

std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, ratelimit::WallTime now) {
  using std::chrono::milliseconds;
  text = TrimBlanks(text);
  if (text.empty()) return std::nullopt;

  if (IsDigit(text.front())) {
    const std::int64_t most = kMaxRetryAfter.count() / 1000;
    std::int64_t seconds = 0;
    for (const char c : text) {
      if (!IsDigit(c)) return std::nullopt;
      if (seconds <= most) seconds = seconds * 10 + (c - '0');
    }
    return seconds >= most ? kMaxRetryAfter : milliseconds(seconds * 1000);
  }

  auto date = ParseImfFixdate(text);
  if (!date) date = ParseRfc850(text, now);
  if (!date) date = ParseAsctime(text);
  if (!date) return std::nullopt;
  const auto at = UnixSeconds(*date);
  if (!at) return std::nullopt;
  const std::int64_t now_ms = std::chrono::floor<milliseconds>(now.time_since_epoch()).count();
  const milliseconds wait(*at * 1000 - now_ms);
  if (wait < milliseconds(0)) return milliseconds(0);
  return wait > kMaxRetryAfter ? kMaxRetryAfter : wait;
}

}  // namespace posthorn::http
