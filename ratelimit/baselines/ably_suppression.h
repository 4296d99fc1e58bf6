#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ratelimit/time.h"

namespace posthorn::ratelimit::baselines {

/// Ably's suppression: which fraction of all messages is to be rejected, from the fleet's rate as a moving average over
/// four parts of 6 s. Everybody rejects by a draw of his own.
///
/// The running part counts only when it raises the average: a part that has just begun would hide a flood that goes on.
/// Measured is what is offered, rejected messages too, and the fraction is what is above the limit: 1 - limit /
/// offered. So a flood is back at the limit when the average has filled, after 24 s, and what is above until then goes
/// out. The first version measured what was achieved, with a ramp up to three times the limit, and oscillated:
/// kAchieved.
///
/// Sources  "Building a distributed rate limiter that scales horizontally" (Simon Woolf, Ably, 2018): both versions,
/// the
///          sums at one master per account, the average over 24 s.
/// Units    Messages per second; a fraction in [0, 1].
/// Time     `now` and `until` must not go back.
class AblySuppression {
 public:
  enum class Measure : std::uint8_t { kOffered, kAchieved };
  static constexpr Nanoseconds kTell = std::chrono::seconds(2);  // from each instance to the master, and back
  static constexpr Nanoseconds kPart = std::chrono::seconds(6);
  static constexpr std::size_t kParts = 4;
  static constexpr double kRampEnd = 3;  // times the limit, of kAchieved

  AblySuppression(double limit, WallTime now, Measure measure = Measure::kOffered)
      : limit_(limit), measure_(measure), begun_(now) {}

  void SetLimit(double limit) { limit_ = limit; }

  /// `messages` of what is measured, evenly in [from, until).
  void Count(std::int64_t messages, WallTime from, WallTime until);

  /// The moving average.
  [[nodiscard]] double Rate(WallTime now);

  [[nodiscard]] double Fraction(WallTime now);

 private:
  void Advance(WallTime now);

  double limit_;
  Measure measure_;
  WallTime begun_;                          // of the running part
  std::array<double, kParts + 1> parts_{};  // the running one, then the newest complete one
};

}  // namespace posthorn::ratelimit::baselines
