#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::ratelimit {

/// Where the dealing of odd permits begins in a window, so that over the windows everybody has its turn.
struct Turn {
  Label label = 0;
  std::int64_t total = 0;  // MaxRate::Total(label)
  Wide before = 0;         // MaxRate::CumulativeAt(label)

  static Turn Of(const MaxRate& rate, Label w) { return {w, rate.Total(w), rate.CumulativeAt(w)}; }
};

/// Divides `available` permits so that nobody gets more than it asks for and nobody could get more except from somebody
/// who has no more than it: max-min fairness, in whole permits.
///
/// All are raised to the highest level that the permits allow; the r < m permits that are left go one each to r of the
/// m whose demand is above the level, dealt on like cards from window to window. As long as the same m stay unsatisfied
/// each of them has its turn within ceil(m / r) windows that have any permits to deal, also with rates below 1/s.
///
/// `available` and each demand are at least 0 and their sum fits 63 bits; a negative one counts as 0. The order of
/// `demands` is the order of the turns: keep it from window to window. The result has one entry per demand and sums to
/// min(available, sum of demands).
///
/// Cost     One sort of the demands that are above 0.
std::vector<std::int64_t> WaterFill(std::int64_t available, std::span<const std::int64_t> demands, const Turn& turn);

}  // namespace posthorn::ratelimit
