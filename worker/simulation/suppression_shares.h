#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ratelimit/baselines/ably_suppression.h"
#include "worker/simulation/mail.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// Ably's suppression ("fraction"): every worker tells the master what it was offered, is told which fraction to
/// reject, and draws for each message. What is rejected is gone, nothing waits for a permit.
class SuppressionShares final : public ShareStrategy {
 public:
  SuppressionShares(const Scenario& scenario, Random& random, WallTime begin);

  void Start(std::size_t i, WallTime now) override;
  void Stop(std::size_t i, bool graceful, WallTime now) override;
  void SetMaxRate(const MaxRate& rate, WallTime now) override;
  void SetNetwork(const Network& network) override { network_ = network; }
  void Advance(WallTime now) override;
  Started Take(std::size_t i, const Load& load, WallTime now) override;
  double Share(std::size_t i, WallTime now) override;

 private:
  struct Sender {
    bool running = false;
    double fraction = 0;
    std::int64_t offered = 0;  // since it told last
    WallTime told{};
    WallTime next_tell{};
    double offered_rate = 0;  // as it told last, per second
  };
  // Letters.
  struct Offered {
    std::size_t from = 0;
    std::int64_t messages = 0;
    WallTime since;
    WallTime until;
  };
  struct NewFraction {
    std::size_t to = 0;
    double fraction = 0;
  };
  struct NewLimit {
    double limit = 0;
  };
  using Letter = std::variant<Offered, NewFraction, NewLimit>;

  void Open(const Offered& letter, WallTime now);
  void Open(const NewFraction& letter, WallTime now);
  void Open(const NewLimit& letter, WallTime now);
  void Post(Letter letter, WallTime now);

  const Scenario& scenario_;
  Random& random_;
  Network network_;
  ratelimit::baselines::AblySuppression master_;
  WallTime limit_known_{};  // the newest one, by the master
  std::vector<Sender> senders_;
  Mail<Letter> mail_;
};

}  // namespace posthorn::simulation
