#include "ratelimit/leases/water_fill.h"

#include <algorithm>

namespace posthorn::ratelimit {
namespace {

// After windows that each dealt total - r permits evenly and r around the m unsatisfied, `before` permits have gone out
// in all: this many of them were odd ones, counted around the table. With a constant r it is label * r.
std::size_t FirstSeat(const Turn& turn, std::int64_t r, std::int64_t m) {
  const Wide dealt = turn.before - Wide{turn.label} * (turn.total - r);
  return static_cast<std::size_t>(dealt - FloorDiv(dealt, m) * m);
}

}  // namespace

std::vector<std::int64_t> WaterFill(std::int64_t available, std::span<const std::int64_t> demands, const Turn& turn) {
  std::vector<std::int64_t> shares(demands.size(), 0);
  std::vector<std::int64_t> sorted;
  sorted.reserve(demands.size());
  for (const std::int64_t demand : demands) {
    if (demand > 0) sorted.push_back(demand);
  }
  if (available <= 0 || sorted.empty()) return shares;
  std::sort(sorted.begin(), sorted.end());

  // The water rises past each demand that can be met in full with everybody behind it at the same level.
  std::int64_t left = available;
  std::size_t met = 0;
  while (met < sorted.size() && sorted[met] <= left / static_cast<std::int64_t>(sorted.size() - met)) {
    left -= sorted[met++];
  }
  const auto unmet = static_cast<std::int64_t>(sorted.size() - met);
  const std::int64_t level = unmet > 0 ? left / unmet : sorted.back();
  for (std::size_t i = 0; i < demands.size(); ++i) shares[i] = std::clamp<std::int64_t>(demands[i], 0, level);
  if (unmet == 0) return shares;

  const std::int64_t odd = left % unmet;
  if (odd == 0) return shares;
  const std::size_t begin = FirstSeat(turn, odd, unmet);
  const auto seats = static_cast<std::size_t>(unmet);
  std::size_t seat = 0;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (demands[i] <= level) continue;
    if ((seat + seats - begin) % seats < static_cast<std::size_t>(odd)) ++shares[i];
    ++seat;
  }
  return shares;
}

}  // namespace posthorn::ratelimit
