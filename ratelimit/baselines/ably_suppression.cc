#include "ratelimit/baselines/ably_suppression.h"

#include <algorithm>
#include <numeric>

namespace posthorn::ratelimit::baselines {
void AblySuppression::Advance(WallTime now) {
  for (std::size_t passed = 0; now - begun_ >= kPart; begun_ += kPart) {
    if (++passed > parts_.size()) {  // nothing is left of what was counted
      begun_ += (now - begun_) / kPart * kPart;
      break;
    }
    std::rotate(parts_.begin(), parts_.end() - 1, parts_.end());
    parts_.front() = 0;
  }
}

void AblySuppression::Count(std::int64_t messages, WallTime from, WallTime until) {
  if (until <= from) return;
  Advance(until - Nanoseconds(1));
  WallTime begin = begun_;
  for (double& part : parts_) {
    const Nanoseconds within = std::min(until, begin + kPart) - std::max(from, begin);
    if (within > Nanoseconds(0)) part += static_cast<double>(messages) * SecondsOf(within) / SecondsOf(until - from);
    begin -= kPart;
  }
}

double AblySuppression::Rate(WallTime now) {
  Advance(now);
  const double complete = std::accumulate(parts_.begin() + 1, parts_.end(), 0.0);
  const double age = SecondsOf(now - begun_);
  const double running = parts_.front();
  // With the running part the oldest one is left out.
  const double with = (complete - parts_.back() + running) / ((kParts - 1) * SecondsOf(kPart) + age);
  const bool raises = age > 0 && running / age >= with;
  return raises ? with : complete / (kParts * SecondsOf(kPart));
}

double AblySuppression::Fraction(WallTime now) {
  const double rate = Rate(now);
  if (rate <= limit_) return 0;
  if (measure_ == Measure::kOffered) return 1 - limit_ / rate;
  if (limit_ <= 0) return 1;
  return std::clamp((rate - limit_) / (limit_ * kRampEnd - limit_), 0.0, 1.0);
}

}  // namespace posthorn::ratelimit::baselines
