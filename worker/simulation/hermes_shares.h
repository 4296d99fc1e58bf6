#pragma once

#include <optional>
#include <vector>

#include "ratelimit/baselines/hermes_balance.h"
#include "ratelimit/baselines/hermes_output_rate.h"
#include "worker/simulation/mail.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// Hermes's max-rate with its defaults. Its registry answers at once and loses nothing; a worker that stops in good
/// order leaves it at once, one that dies when it counts as dead.
class HermesShares final : public ShareStrategy {
 public:
  HermesShares(const Scenario& scenario, Random& random, WallTime begin);

  void Start(std::size_t i, WallTime now) override;
  void Stop(std::size_t i, bool graceful, WallTime now) override;
  void SetMaxRate(const MaxRate& rate, WallTime now) override;
  void Advance(WallTime now) override;
  Started Take(std::size_t i, const Load& load, WallTime now) override;
  double Share(std::size_t i, WallTime now) override;

 private:
  struct Consumer {
    Consumer(const ratelimit::baselines::HermesOptions& options, double rate, WallTime now)
        : usage(options), max_rate(rate), pacer(rate, now) {}

    bool running = true;
    WallTime counted_until = WallTime::max();  // by the leader
    ratelimit::baselines::HermesConsumer registered;
    ratelimit::baselines::HermesUsage usage;
    double max_rate;  // as it knows it
    ratelimit::baselines::HermesOutputRate output;
    ratelimit::baselines::HermesPacer pacer;
    WallTime next_update;
    WallTime next_ramp;
    std::int64_t attempts = 0;  // since the last ramp
    double attempt_rate = 0;    // of the time before
  };

  void Balance(WallTime now);
  void Work(Consumer& consumer, WallTime now);

  const Scenario& scenario_;
  Random& random_;
  ratelimit::baselines::HermesOptions options_;
  double limit_;
  Mail<double> new_limits_;
  WallTime limit_known_{};  // the newest of them
  std::vector<std::optional<Consumer>> consumers_;
  WallTime next_balance_;
};

}  // namespace posthorn::simulation
