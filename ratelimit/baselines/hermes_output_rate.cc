#include "ratelimit/baselines/hermes_output_rate.h"

#include <algorithm>

namespace posthorn::ratelimit::baselines {
namespace {

constexpr double kStoredSeconds = 1;

}  // namespace

double HermesOutputRate::Recalculate(std::int64_t successes, std::int64_t failures, double max_rate) {
  switch (mode_) {
    case Mode::kNormal:
      Normal(successes, failures, max_rate);
      break;
    case Mode::kSlow:
      if (failures > successes) {
        mode_ = Mode::kHeartbeat;
        rate_ = options_.heartbeat;
      } else if (successes > 0 && failures == 0) {
        mode_ = Mode::kNormal;
      }
      break;
    case Mode::kHeartbeat:
      if (successes > 0 && failures == 0) {
        mode_ = Mode::kSlow;
        rate_ = options_.slow;
      }
      break;
  }
  rate_ = std::min(rate_, max_rate);
  return rate_;
}

void HermesOutputRate::Normal(std::int64_t successes, std::int64_t failures, double max_rate) {
  const std::int64_t attempts = successes + failures;
  const double failing = attempts > 0 ? static_cast<double>(failures) / static_cast<double>(attempts) : 0;
  if (failing <= options_.good && rate_ < max_rate) {
    rate_ += (max_rate - rate_) * options_.increase;
  } else if (failures > successes) {
    mode_ = Mode::kSlow;
    rate_ = options_.slow;
  } else if (failing > options_.bad) {
    rate_ = std::max(rate_ * options_.decrease, options_.slow);
  }
}

void HermesPacer::Store(WallTime now) {
  if (now <= next_free_) return;
  stored_ = std::min(stored_ + SecondsOf(now - next_free_) * rate_, kStoredSeconds * rate_);
  next_free_ = now;
}

void HermesPacer::SetRate(double rate, WallTime now) {
  Store(now);
  stored_ *= rate / rate_;
  rate_ = rate;
}

bool HermesPacer::Take(WallTime now) {
  if (sleeping_) {
    if (now < wakes_) return false;
    sleeping_ = false;
    return true;
  }
  Store(now);
  wakes_ = next_free_;
  // The permit is paid for by whoever comes next.
  const double from_store = std::min(stored_, 1.0);
  stored_ -= from_store;
  next_free_ += Nanoseconds(static_cast<Nanoseconds::rep>((1 - from_store) / rate_ * 1e9));
  sleeping_ = wakes_ > now;
  return !sleeping_;
}

}  // namespace posthorn::ratelimit::baselines
