#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ratelimit/time.h"

namespace posthorn::ratelimit {

/// Wide enough for label * numerator without a thought about overflow.
__extension__ using Wide = __int128;

/// floor(a / b) for b > 0, also for negative a.
constexpr Wide FloorDiv(Wide a, Wide b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// How many attempts a limit allows per second, as an exact fraction, and how many that makes in each window.
///
/// Permits lie on a line: CumulativeAt(w) of them before window w. A window holds those between its two ends, so that
/// any run of n windows holds the rate times n, never off by one whole permit, whatever the fraction. All workers
/// compute the same line from the same rate: nothing has to be agreed on.
///
/// Units    Permits per second, 0 to 2 000 000 000. 0 stops deliveries.
/// Threads  A value; const members from any thread.
/// Cost     Total and CumulativeAt: one or two divisions of 128 bits.
class MaxRate {
 public:
  static constexpr std::int64_t kMaxPerSecond = 2'000'000'000;
  static constexpr int kMaxDecimals = 6;

  constexpr MaxRate() = default;  // 0: nothing may start

  /// `500/s`, `0.2/s`, `30/min`, `1000/h`, and `0` without a unit. Up to six decimals.
  /// Errors   nullopt, and one line in `*why` (which may be null) that says what is wrong with the text.
  static std::optional<MaxRate> Parse(std::string_view text, std::string* why);

  /// Permits before window `w`, counted from label 0 (negative before it): floor(w * rate).
  [[nodiscard]] Wide CumulativeAt(Label w) const;

  /// Permits of the whole fleet in window `w`. At most kMaxPerSecond.
  [[nodiscard]] std::int64_t Total(Label w) const;

  /// The smallest label w with CumulativeAt(w) >= `permits`. Requires a rate above 0 and a result that fits a Label.
  [[nodiscard]] Label FirstLabelReaching(Wide permits) const;

  [[nodiscard]] constexpr bool IsZero() const { return numerator_ == 0; }
  [[nodiscard]] double PerSecond() const;  // for metrics and display only

  /// The shortest unit in which the rate is a plain decimal number: `0.5/s` for `30/min`, `0` for 0. Parses back to the
  /// same value.
  [[nodiscard]] std::string ToString() const;

  bool operator==(const MaxRate&) const = default;
  /// Exact order by permits per second.
  friend bool operator<(const MaxRate& a, const MaxRate& b) {
    return Wide{a.numerator_} * b.denominator_ < Wide{b.numerator_} * a.denominator_;
  }

 private:
  constexpr MaxRate(std::int64_t numerator, std::int64_t denominator)
      : numerator_(numerator), denominator_(denominator) {}

  std::int64_t numerator_ = 0;  // lowest terms, so that equal rates are equal members
  std::int64_t denominator_ = 1;
};

}  // namespace posthorn::ratelimit
