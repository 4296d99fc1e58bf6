#include "worker/simulation/static_shares.h"

#include <algorithm>
#include <variant>

namespace posthorn::simulation {

using ratelimit::Admitted;
using ratelimit::Burst;
using ratelimit::Limiter;

StaticShares::StaticShares(const Scenario& scenario, Random& random)
    : scenario_(scenario),
      random_(random),
      rate_(scenario.max_rate),
      known_(scenario.workers.size()),
      limiters_(scenario.workers.size()) {
  constexpr Nanoseconds kMargin = std::chrono::milliseconds(1);
  timing_.max_clock_offset = std::max(timing_.max_clock_offset, 2 * scenario.clock_offset + kMargin);
  timing_.settle = std::max(timing_.settle, scenario.config_delay + timing_.max_clock_offset);
}

ratelimit::Plan StaticShares::PlanOf(std::size_t i, const MaxRate& rate) const {
  const auto instances = static_cast<std::uint32_t>(limiters_.size());
  return {rate, scenario_.smooth ? Burst::kSmooth : Burst::kAtOnce,
          ratelimit::SlotDealing{static_cast<std::uint32_t>(i), instances}};
}

void StaticShares::Start(std::size_t i, WallTime now) {
  known_[i] = revision_;
  limiters_[i] = std::make_unique<Limiter>(PlanOf(i, rate_), Limiter::Options{timing_, random_.Unit()},
                                           now + scenario_.workers[i].clock);
}

void StaticShares::Stop(std::size_t i, bool /*graceful*/, WallTime /*now*/) { limiters_[i].reset(); }

void StaticShares::SetMaxRate(const MaxRate& rate, WallTime now) {
  rate_ = rate;
  ++revision_;
  for (std::size_t i = 0; i < limiters_.size(); ++i) {
    mail_.Post(now + random_.In(Nanoseconds(0), scenario_.config_delay), {i, rate, revision_});
  }
}

void StaticShares::Advance(WallTime now) {
  mail_.DeliverUntil(now, [this](const NewRate& news, WallTime due) {
    if (!limiters_[news.worker] || news.revision <= known_[news.worker]) return;
    known_[news.worker] = news.revision;
    limiters_[news.worker]->SetPlan(PlanOf(news.worker, news.rate), due + scenario_.workers[news.worker].clock);
  });
}

Started StaticShares::Take(std::size_t i, const Load& load, WallTime now) {
  const WallTime local = now + scenario_.workers[i].clock;
  Started started;
  while (started.sent < load.Ready()) {
    const auto decision = limiters_[i]->Acquire(local, Nanoseconds(0));
    const auto* admitted = std::get_if<Admitted>(&decision);
    if (admitted == nullptr) break;
    started.label = admitted->label;
    ++started.sent;
  }
  return started;
}

double StaticShares::Share(std::size_t i, WallTime now) {
  return limiters_[i] ? static_cast<double>(limiters_[i]->PartialLimit(now + scenario_.workers[i].clock)) : 0;
}

}  // namespace posthorn::simulation
