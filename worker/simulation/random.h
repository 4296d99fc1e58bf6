#pragma once

#include <cstdint>
#include <random>

#include "ratelimit/time.h"

namespace posthorn::simulation {

/// The only source of chance: the same seed gives the same run everywhere (the standard's distributions would not).
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t Bits() { return engine_(); }
  /// Uniform in [0, 1).
  double Unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool Chance(double probability) { return probability > 0 && Unit() < probability; }
  /// Uniform in [low, high].
  ratelimit::Nanoseconds In(ratelimit::Nanoseconds low, ratelimit::Nanoseconds high) {
    const auto width = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + ratelimit::Nanoseconds(static_cast<std::int64_t>(engine_() % width));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace posthorn::simulation
