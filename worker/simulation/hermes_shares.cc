#include "worker/simulation/hermes_shares.h"

#include <algorithm>

namespace posthorn::simulation {

using ratelimit::SecondsOf;

using ratelimit::LabelAt;
using ratelimit::baselines::HermesConsumer;

HermesShares::HermesShares(const Scenario& scenario, Random& random, WallTime begin)
    : scenario_(scenario),
      random_(random),
      limit_(scenario.max_rate.PerSecond()),
      consumers_(scenario.workers.size()),
      next_balance_(begin + random.In(Nanoseconds(0), options_.balance_interval)) {}

void HermesShares::Start(std::size_t i, WallTime now) {
  Consumer& consumer = consumers_[i].emplace(options_, options_.min_max_rate, now);
  consumer.next_update = now + random_.In(Nanoseconds(0), options_.update_interval);
  consumer.next_ramp = now + random_.In(Nanoseconds(0), options_.ramp_interval);
}

void HermesShares::Stop(std::size_t i, bool graceful, WallTime now) {
  consumers_[i]->running = false;
  consumers_[i]->counted_until = graceful ? now : now + options_.dead_after;
}

void HermesShares::SetMaxRate(const MaxRate& rate, WallTime now) {
  limit_known_ = std::max(limit_known_, now + random_.In(Nanoseconds(0), scenario_.config_delay));
  new_limits_.Post(limit_known_, rate.PerSecond());
}

void HermesShares::Balance(WallTime now) {
  std::vector<HermesConsumer> counted;
  std::vector<Consumer*> who;
  for (auto& consumer : consumers_) {
    if (!consumer || now >= consumer->counted_until) continue;
    counted.push_back(consumer->registered);
    who.push_back(&*consumer);
  }
  if (who.empty()) return;
  const auto rates = ratelimit::baselines::HermesBalance(limit_, counted, options_);
  for (std::size_t k = 0; k < who.size(); ++k) who[k]->registered.max_rate = rates[k];
}

void HermesShares::Work(Consumer& consumer, WallTime now) {
  if (now >= consumer.next_update) {
    consumer.next_update += options_.update_interval;
    consumer.registered.usage = consumer.usage.Tell(consumer.attempt_rate, consumer.max_rate);
    consumer.max_rate = consumer.registered.max_rate.value_or(consumer.max_rate);
  }
  if (now >= consumer.next_ramp) {
    consumer.next_ramp += options_.ramp_interval;
    consumer.attempt_rate = static_cast<double>(consumer.attempts) / SecondsOf(options_.ramp_interval);
    consumer.pacer.SetRate(consumer.output.Recalculate(consumer.attempts, 0, consumer.max_rate), now);
    consumer.attempts = 0;
  }
}

void HermesShares::Advance(WallTime now) {
  new_limits_.DeliverUntil(now, [this](double limit, WallTime) { limit_ = limit; });
  if (now >= next_balance_) {
    next_balance_ += options_.balance_interval;
    Balance(now);
  }
  for (auto& consumer : consumers_) {
    if (consumer && consumer->running) Work(*consumer, now);
  }
}

Started HermesShares::Take(std::size_t i, const Load& load, WallTime now) {
  Consumer& consumer = *consumers_[i];
  Started started;
  started.label = LabelAt(now);
  while (started.sent < load.Ready() && consumer.pacer.Take(now)) ++started.sent;
  consumer.attempts += started.sent;
  return started;
}

double HermesShares::Share(std::size_t i, WallTime /*now*/) {
  return consumers_[i] && consumers_[i]->running ? consumers_[i]->max_rate : 0;
}

}  // namespace posthorn::simulation
