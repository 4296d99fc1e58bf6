#include "ratelimit/baselines/hermes_balance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace posthorn::ratelimit::baselines {
namespace {

constexpr double kDistributionError = 1;  // per second

// The part of `rate` that goes, the less the more of it is used.
double PartOf(double rate, double used) { return rate * (2 / (used + 1) - 1); }

}  // namespace

std::vector<double> HermesBalance(double limit, std::span<const HermesConsumer> consumers,
                                  const HermesOptions& options) {
  const auto count = static_cast<double>(consumers.size());
  double sum = 0;
  bool reset = limit / count <= 1;
  for (const HermesConsumer& consumer : consumers) {
    reset = reset || !consumer.max_rate;
    sum += consumer.max_rate.value_or(0);
  }
  if (reset || std::abs(sum - limit) > kDistributionError) {
    return std::vector<double>(consumers.size(), std::max(options.min_max_rate, limit / count));
  }

  std::vector<double> rates;
  for (const HermesConsumer& consumer : consumers) rates.push_back(*consumer.max_rate);
  const auto busy = [&](std::size_t i) {
    return consumers[i].usage && *consumers[i].usage > 1 - options.busy_tolerance;
  };
  std::size_t busy_count = 0;
  double busy_sum = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!busy(i)) continue;
    ++busy_count;
    busy_sum += rates[i];
  }
  if (busy_count == 0) return rates;

  const double least_change = limit * options.min_allowed_change_percent / 100;
  double freed = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (busy(i) || !consumers[i].usage) continue;
    double part = PartOf(rates[i], *consumers[i].usage);
    if (part <= least_change) part = 0;
    part = std::min(part, rates[i] - options.min_max_rate);
    rates[i] -= part;
    freed += part;
  }

  const double equal = busy_sum / static_cast<double>(busy_count);
  std::vector<std::size_t> takers;
  double takers_sum = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!busy(i)) continue;
    if (busy_count > 1 && rates[i] > equal + least_change) {
      const double part = std::min(std::max(PartOf(rates[i] / 2, rates[i] / busy_sum), least_change), rates[i] - equal);
      rates[i] -= part;
      freed += part;
    } else {
      takers.push_back(i);
      takers_sum += rates[i];
    }
  }
  for (const std::size_t i : takers) rates[i] += freed * rates[i] / takers_sum;
  return rates;
}

double HermesUsage::Tell(double attempts_per_second, double max_rate) {
  const double used = std::min(attempts_per_second / std::max(max_rate, 1.0), 1.0);
  if (!told_ || std::abs(used - *told_) > significant_) told_ = used;
  return *told_;
}

}  // namespace posthorn::ratelimit::baselines
