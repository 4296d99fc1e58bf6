#include "worker/delivery/backoff.h"

#include <algorithm>
#include <cmath>

namespace posthorn::delivery {

runtime::Nanoseconds BackoffFor(const config::Backoff& policy, std::uint32_t attempt_number, double random) {
  // A hundred years fit into nanoseconds, and into what is added to a clock.
  constexpr std::chrono::duration<double, std::milli> kLongest = std::chrono::hours(24) * 36'500;
  const double max = std::min(std::chrono::duration<double, std::milli>(policy.max), kLongest).count();
  const auto initial = std::chrono::duration<double, std::milli>(policy.initial).count();
  const double exponent = attempt_number == 0 ? 0 : static_cast<double>(attempt_number) - 1;
  // pow may reach infinity, which min() brings back to max.
  double wait = initial > 0 ? std::min(initial * std::pow(policy.multiplier, exponent), max) : 0;
  if (policy.jitter == config::Jitter::kFull) wait *= std::max(0.1, random);
  return std::chrono::duration_cast<runtime::Nanoseconds>(std::chrono::duration<double, std::milli>(wait));
}

}  // namespace posthorn::delivery
