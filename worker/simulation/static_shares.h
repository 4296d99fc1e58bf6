#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ratelimit/limiter.h"
#include "worker/simulation/mail.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// `shares: static`: worker k is slot k of N. The limiter that workers run, with nobody to talk to.
class StaticShares final : public ShareStrategy {
 public:
  StaticShares(const Scenario& scenario, Random& random);

  void Start(std::size_t i, WallTime now) override;
  void Stop(std::size_t i, bool graceful, WallTime now) override;
  void SetMaxRate(const MaxRate& rate, WallTime now) override;
  void Advance(WallTime now) override;
  Started Take(std::size_t i, const Load& load, WallTime now) override;
  double Share(std::size_t i, WallTime now) override;

 private:
  struct NewRate {
    std::size_t worker = 0;
    MaxRate rate;
    std::uint64_t revision = 0;
  };

  [[nodiscard]] ratelimit::Plan PlanOf(std::size_t i, const MaxRate& rate) const;

  const Scenario& scenario_;
  Random& random_;
  ratelimit::Timing timing_;
  MaxRate rate_;
  std::uint64_t revision_ = 0;
  std::vector<std::uint64_t> known_;  // revision that each goes by: older news that come late are ignored
  std::vector<std::unique_ptr<ratelimit::Limiter>> limiters_;  // null: it does not run
  Mail<NewRate> mail_;
};

}  // namespace posthorn::simulation
