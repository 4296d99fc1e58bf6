#include "worker/fleet/demand.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace posthorn::fleet {
namespace {

using delivery::EndpointHealth;
using delivery::ShardStats;
using delivery::SubscriptionShared;
using ratelimit::Label;

/// Less of a window says little about the whole of it.
constexpr auto kEnoughOfWindow = std::chrono::milliseconds(200);
constexpr std::int64_t kNoCeiling = std::numeric_limits<std::int64_t>::max();

std::int64_t Started(const SubscriptionShared& shared, Label label) {
  std::uint64_t sum = 0;
  for (const auto& stats : shared.per_shard) sum += stats->attempts_by_label.Of(label);
  return static_cast<std::int64_t>(sum);
}

/// Attempts per window, lately.
std::int64_t Pace(const SubscriptionShared& shared, runtime::WallTime now) {
  const Label label = ratelimit::LabelAt(now);
  const auto passed = now - ratelimit::StartOf(label);
  const std::int64_t last = Started(shared, label - 1);
  if (passed < kEnoughOfWindow) return last;
  const double running = static_cast<double>(Started(shared, label)) *
                         std::chrono::duration<double>(ratelimit::kWindow) / std::chrono::duration<double>(passed);
  return std::max(last, static_cast<std::int64_t>(running));
}

std::int64_t Ready(const SubscriptionShared& shared) {
  std::uint64_t sum = 0;
  for (const auto& stats : shared.per_shard) sum += stats->waiting_for_permit.value();
  return static_cast<std::int64_t>(sum);
}

/// What the endpoint takes until the end of the next window.
std::int64_t CeilingOf(const EndpointHealth& health, const runtime::Now& now) {
  if (!health.restricted()) return kNoCeiling;
  const auto view = health.Show(now.steady);
  const auto end = now.steady + (ratelimit::StartOf(ratelimit::LabelAt(now.wall) + 2) - now.wall);
  switch (view.state) {
    case EndpointHealth::State::kHealthy:
      return kNoCeiling;
    case EndpointHealth::State::kSlowed:
      return static_cast<std::int64_t>(std::ceil(view.ceiling));
    case EndpointHealth::State::kProbing:
      return view.until < end ? 1 : 0;
    case EndpointHealth::State::kHeld:
      return view.until < end ? kNoCeiling : 0;
  }
  return kNoCeiling;
}

Demand OfSubscription(const delivery::Dispatcher::SubscriptionView& view, const runtime::Now& now) {
  const auto& shared = *view.shared;
  const std::int64_t ready = Ready(shared);
  std::int64_t unread = 0;
  for (const auto& lane : view.lanes) unread += std::max<std::int64_t>(0, lane.log_end - lane.taken);
  const std::int64_t pace = Pace(shared, now.wall);
  std::int64_t most = CeilingOf(shared.health, now);
  // With its requests all under way, or its turns one after the other, it is not permits that it waits for.
  const bool in_turn = view.config->ordering == config::Ordering::kPartition && ready == 0;
  if (in_turn || shared.slots.used() >= view.config->max_in_flight) most = std::min(most, pace + pace / 8 + 1);
  return {std::min(ready + unread + pace, most), std::min(ready, most)};
}

}  // namespace

std::map<std::string, Demand> DemandOf(const std::vector<delivery::Dispatcher::SubscriptionView>& subscriptions,
                                       const runtime::Now& now) {
  std::map<std::string, Demand> demand;
  for (const auto& view : subscriptions) {
    if (view.config->limit.empty() || view.config->paused) continue;
    const auto one = OfSubscription(view, now);
    auto& of = demand[view.config->limit];
    of.next_window += one.next_window;
    of.now += one.now;
  }
  return demand;
}

}  // namespace posthorn::fleet
