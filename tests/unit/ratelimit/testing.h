#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "ratelimit/limiter.h"

// Words the tests of this room share.
namespace posthorn::ratelimit::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A label of today's size; windows of the tests start here.
inline constexpr Label kFirst = 1'793'000'000;
inline WallTime At(Nanoseconds since_first) { return StartOf(kFirst) + since_first; }

inline MaxRate Rate(std::string_view text) { return MaxRate::Parse(text, nullptr).value(); }

inline Plan SlotPlan(MaxRate rate, std::uint32_t slot, std::uint32_t instances, Burst burst = Burst::kAtOnce) {
  return {rate, burst, SlotDealing{slot, instances}};
}

inline std::int64_t TakeAll(Limiter& limiter, WallTime now) {
  std::int64_t taken = 0;
  while (std::holds_alternative<Admitted>(limiter.Acquire(now, Nanoseconds(0)))) ++taken;
  return taken;
}

/// Deterministic on every platform: the standard distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [low, high].
  std::int64_t In(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  Nanoseconds In(Nanoseconds low, Nanoseconds high) { return Nanoseconds(In(low.count(), high.count())); }
  bool OneIn(std::int64_t n) { return In(1, n) == 1; }
  template <typename Range>
  const auto& Of(const Range& range) {
    return range[static_cast<std::size_t>(In(0, static_cast<std::int64_t>(std::size(range)) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

/// Rates at which dealing has something to deal: around the number of workers, below one a second, none at all.
inline const std::vector<MaxRate>& SomeRates() {
  static const std::vector<MaxRate> rates = {Rate("0"),     Rate("1/s"),   Rate("2/s"),    Rate("3/s"),
                                             Rate("5/s"),   Rate("7/s"),   Rate("10/s"),   Rate("23/s"),
                                             Rate("0.3/s"), Rate("2.5/s"), Rate("1000/h"), Rate("100/min")};
  return rates;
}

}  // namespace posthorn::ratelimit::testing
