#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ratelimit/time.h"

namespace posthorn::ratelimit::baselines {

/// Hermes's defaults (consumer.maxrate.*, and the supervisor of its output rates).
struct HermesOptions {
  Nanoseconds balance_interval = std::chrono::seconds(30);  // the leader balances
  Nanoseconds update_interval = std::chrono::seconds(15);   // a consumer tells its usage and reads its max-rate
  Nanoseconds ramp_interval = std::chrono::seconds(30);     // a consumer recalculates its output rate
  Nanoseconds dead_after = std::chrono::seconds(120);       // a consumer that died is no longer counted
  double busy_tolerance = 0.1;                              // busy: uses more than 1 - this of its max-rate
  double min_max_rate = 1;                                  // nobody gets less, per second
  double min_allowed_change_percent = 1;                    // of the limit; smaller changes are not made
  double min_significant_update_percent = 9;                // of usage; smaller moves are not told
};

struct HermesConsumer {
  std::optional<double> max_rate;  // none: it has just come
  std::optional<double> usage;     // told last, as a part of its max-rate; none: nothing told yet
};

/// One round of Hermes's max-rate balancing: the max-rate of each consumer from here on, in the order given.
///
/// A consumer is busy when it uses more than 90 % of what it has. Whoever is not gives away a part that falls with its
/// usage; the busy get that in proportion to what they have; of the busy, one with clearly more than an equal part
/// gives of that too. A consumer that has come, one that is gone, a changed limit and a limit of at most one per
/// consumer reset everybody to an equal part, but never below one per second: that is how a limit of 1/s becomes N/s.
///
/// Sources  "Consumers rate limiter, maximum rate negotiation" (documentation of Hermes) and "Distributed rate limiting
///          of delivery attempts" (Allegro tech blog, 2017); it behaves the same in 2.6.22.
/// Units    Permits per second, fractions too. `limit` is above 0.
std::vector<double> HermesBalance(double limit, std::span<const HermesConsumer> consumers,
                                  const HermesOptions& options = {});

/// A consumer's word on its usage: told again only when it has moved by more than 9 % of the max-rate.
class HermesUsage {
 public:
  explicit HermesUsage(const HermesOptions& options = {})
      : significant_(options.min_significant_update_percent / 100) {}

  /// The usage that the leader sees from here on.
  double Tell(double attempts_per_second, double max_rate);

 private:
  double significant_;
  std::optional<double> told_;
};

}  // namespace posthorn::ratelimit::baselines
