#include "ratelimit/leases/planner.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ratelimit/leases/water_fill.h"

namespace posthorn::ratelimit {
namespace {

constexpr std::int64_t kReserveFrom = 20;  // totals of less keep nothing back
constexpr std::int64_t kReservePart = 20;  // one in so many
constexpr Label kUnreserved = 2;           // the running label and the next are dealt in full
constexpr std::int64_t kChurnPart = 50;

std::int64_t SumOf(const std::vector<std::int64_t>& permits) {
  return std::accumulate(permits.begin(), permits.end(), std::int64_t{0});
}

std::vector<std::int64_t> Targets(std::int64_t available, std::int64_t total, std::span<const Wish> wishes,
                                  const Turn& turn) {
  const std::int64_t least = total / 2 >= static_cast<std::int64_t>(wishes.size()) ? 1 : 0;
  std::vector<std::int64_t> demands;
  demands.reserve(wishes.size());
  for (const Wish& wish : wishes) demands.push_back(std::clamp(wish.demand, least, std::max(least, total)));
  auto targets = WaterFill(available, demands, turn);
  if (const std::int64_t surplus = available - SumOf(targets); surplus > 0) {
    const std::vector<std::int64_t> anything(wishes.size(), surplus);
    const auto more = WaterFill(surplus, anything, turn);
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] += more[i];
  }
  return targets;
}

}  // namespace

std::vector<std::vector<std::int64_t>> PlanShares(const LeaseLedger& ledger, std::span<const Wish> wishes, Label first,
                                                  Label end, Mutation mutation) {
  std::vector<std::vector<std::int64_t>> plan(wishes.size());
  for (auto& shares : plan) shares.reserve(static_cast<std::size_t>(end - first));
  std::vector<std::int64_t> exposure(wishes.size());
  std::vector<std::int64_t> missing(wishes.size());
  for (Label w = first; w < end; ++w) {
    const Turn turn = Turn::Of(ledger.terms().RateAt(w), w);
    for (std::size_t i = 0; i < wishes.size(); ++i) exposure[i] = ledger.Exposure(*wishes[i].holder, w);
    const std::int64_t all = ledger.TotalExposure(w);
    const std::int64_t others = all - SumOf(exposure);
    const std::int64_t reserve = w >= first + kUnreserved && turn.total >= kReserveFrom ? turn.total / kReservePart : 0;
    const auto targets = Targets(turn.total - reserve - others, turn.total, wishes, turn);
    for (std::size_t i = 0; i < wishes.size(); ++i) missing[i] = targets[i] - exposure[i];
    const auto growth = WaterFill(turn.total - all, missing, turn);
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      std::int64_t share = targets[i];
      if (mutation == Mutation::kGrowthIgnoresFree) {
        // as it is
      } else if (all > turn.total) {
        const std::int64_t again =
            mutation == Mutation::kReraiseToExposure ? exposure[i] : ledger.LastCut(*wishes[i].holder, w);
        share = std::min(share, again);
      } else if (share > exposure[i]) {
        share = exposure[i] + growth[i];
      }
      plan[i].push_back(share);
    }
  }
  return plan;
}

bool WorthSending(const LeaseLedger& ledger, const LeaseLedger::Holder& holder, Label first,
                  std::span<const std::int64_t> shares, bool urgent) {
  if (ledger.CoveredUntil(holder) < first + static_cast<Label>(shares.size())) return true;
  Label w = first;
  for (const std::int64_t share : shares) {
    const std::int64_t least = urgent ? 1 : std::max<std::int64_t>(1, ledger.Total(w) / kChurnPart);
    if (std::abs(share - ledger.Last(holder, w)) >= least) return true;
    ++w;
  }
  return false;
}

}  // namespace posthorn::ratelimit
