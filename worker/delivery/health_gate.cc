#include "worker/delivery/health_gate.h"

#include <algorithm>

#include "worker/delivery/lane.h"
#include "worker/delivery/shard.h"
#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

/// As for permits: what may start within a millisecond goes together.
constexpr auto kShortestWait = std::chrono::milliseconds(1);

}  // namespace

bool HealthGate::Pass(Lane& lane, const runtime::Now& now) {
  auto& health = subscription_.shared->health;
  if (!health.restricted()) return true;
  const auto decision = health.Ask(shard_.index(), now.steady, subscription_.config->backoff);
  if (decision.change) Log(*decision.change, now);
  if (!decision.not_before) return true;
  lane.held_back = true;
  held_back_.push_back(&lane);
  ArmTimer(*decision.not_before, now);
  return false;
}

void HealthGate::GiveBack(const runtime::Now& now) {
  auto& health = subscription_.shared->health;
  if (health.restricted()) health.GiveBack(shard_.index(), now.steady);
}

void HealthGate::Note(const Response& response, const runtime::Now& now) {
  auto& health = subscription_.shared->health;
  std::optional<EndpointHealth::View> change;
  switch (response.verdict) {
    case Verdict::kNotSent:
      GiveBack(now);
      return;
    case Verdict::kDelivered:
    case Verdict::kRejected:
      if (!health.watching()) return;
      change = health.OnGood(now.steady);
      break;
    case Verdict::kRetry:
    case Verdict::kOverload: {
      const auto& config = *subscription_.config;
      const bool overload = response.verdict == Verdict::kOverload;
      runtime::Nanoseconds hold{0};
      if (response.retry_after && (response.status == 429 || response.status == 503)) {
        hold = std::min(*response.retry_after, config.retry_after_max);
      }
      change = health.OnBad(overload ? EndpointHealth::Answer::kOverloaded : EndpointHealth::Answer::kFailed,
                            now.steady, config.backoff, Rates(now), hold);
      break;
    }
  }
  if (change) Log(*change, now);
  if (!held_back_.empty()) ArmTimer(health.NextDue(shard_.index(), now.steady), now);
}

void HealthGate::Serve(const runtime::Now& now) {
  if (held_back_.empty() || !shard_.MayGivePermits(now)) return;  // in doubt: the ticks look again
  const auto& health = subscription_.shared->health;
  auto due = health.restricted() ? health.Due(shard_.index(), now.steady) : UINT32_MAX;
  while (due > 0 && !held_back_.empty()) {
    Lane* lane = held_back_.front();
    held_back_.pop_front();
    lane->held_back = false;
    if (lane->Head(now) == nullptr) continue;  // comes by itself when it has something
    shard_.Wake(*lane);
    --due;
  }
  if (!held_back_.empty()) ArmTimer(health.NextDue(shard_.index(), now.steady), now);
}

void HealthGate::Tick(const runtime::Now& now) {
  if (held_back_.empty() || !shard_.MayGivePermits(now)) return;
  for (std::size_t i = 0; i < held_back_.size(); ++i)
    (void)held_back_[i]->Head(now);  // what has expired meanwhile ends
  Serve(now);
}

void HealthGate::Remove(Lane& lane) {
  lane.held_back = false;
  std::erase(held_back_, &lane);
}

void HealthGate::ArmTimer(runtime::SteadyTime at, const runtime::Now& now) {
  at = std::max(at, now.steady + kShortestWait);
  if (armed_for_ > now.steady && armed_for_ <= at) return;
  if (!timer_) {
    timer_ = shard_.loop().MakeTimer([this] {
      armed_for_ = {};
      Serve(shard_.loop().now());
    });
  }
  armed_for_ = at;
  timer_->Arm(at);
}

EndpointHealth::Rates HealthGate::Rates(const runtime::Now& now) const {
  EndpointHealth::Rates rates;
  // Of the running window what has come so far, of the last one what lies within a second.
  const auto label = ratelimit::LabelAt(now.wall);
  const auto passed = std::chrono::duration<double>(now.wall - ratelimit::StartOf(label)).count();
  double last = 0;
  for (const auto& stats : subscription_.shared->per_shard) {
    rates.measured += static_cast<double>(stats->attempts_by_label.Of(label));
    last += static_cast<double>(stats->attempts_by_label.Of(label - 1));
  }
  rates.measured += last * std::clamp(1 - passed, 0.0, 1.0);
  if (auto* limiter = subscription_.permits->limiter()) {
    rates.full = static_cast<double>(limiter->PartialLimit(now.wall));
  }
  return rates;
}

void HealthGate::Log(const EndpointHealth::View& view, const runtime::Now& now) const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(view.until - now.steady).count();
  using runtime::LogLevel;
  const auto& name = subscription_.shared->name;
  switch (view.state) {
    case EndpointHealth::State::kHealthy:
      runtime::Log(LogLevel::kInfo, "endpoint is healthy again", {{"subscription", name}});
      return;
    case EndpointHealth::State::kSlowed:
      runtime::Log(LogLevel::kWarning, "endpoint is overloaded or failing, slowed down",
                   {{"subscription", name}, {"attempts_per_second", view.ceiling}});
      return;
    case EndpointHealth::State::kProbing:
      runtime::Log(LogLevel::kWarning, "endpoint fails throughout, probing only",
                   {{"subscription", name}, {"next_ms", ms}});
      return;
    case EndpointHealth::State::kHeld:
      runtime::Log(LogLevel::kWarning, "endpoint asked to wait", {{"subscription", name}, {"ms", ms}});
      return;
  }
}

}  // namespace posthorn::delivery
