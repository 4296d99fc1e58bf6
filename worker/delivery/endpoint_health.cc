#include "worker/delivery/endpoint_health.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "worker/delivery/backoff.h"

namespace posthorn::delivery {
namespace {

using runtime::Nanoseconds;
using runtime::SteadyTime;

constexpr std::uint32_t kMask = (1U << EndpointHealth::kLast) - 1;
/// A place that was not taken by then is nobody's.
constexpr Nanoseconds kPlaceKept = std::chrono::milliseconds(250);
/// No ceiling is lower, and where everything fails at less than twice of it, probing begins.
constexpr double kFloor = 1;

Nanoseconds ProbeWait(const config::Backoff& backoff, std::uint32_t probe) {
  // Without jitter: what must not come in step are the messages, of which a probe is one.
  return std::clamp<Nanoseconds>(BackoffFor(backoff, probe, 1.0), std::chrono::milliseconds(1),
                                 EndpointHealth::kLongestProbe);
}

double Seconds(Nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

const char* ToString(EndpointHealth::State state) {
  switch (state) {
    case EndpointHealth::State::kHealthy:
      return "healthy";
    case EndpointHealth::State::kSlowed:
      return "slowed";
    case EndpointHealth::State::kProbing:
      return "probing";
    case EndpointHealth::State::kHeld:
      return "held";
  }
  return "unknown";
}

// ---- may an attempt start?

EndpointHealth::Decision EndpointHealth::Ask(std::uint32_t shard, SteadyTime now, const config::Backoff& backoff) {
  const std::lock_guard lock(mutex_);
  Decision decision;
  if (now < held_until_) {
    decision.not_before = held_until_;
    return decision;
  }
  decision.change = Changed(now);
  switch (state_) {
    case State::kHealthy:
    case State::kHeld:
      return decision;
    case State::kProbing:
      if (now < next_probe_) {
        decision.not_before = next_probe_;
      } else {
        next_probe_ = now + ProbeWait(backoff, ++probes_);
      }
      return decision;
    case State::kSlowed:
      break;
  }
  auto& place = places_[shard % kShards];
  if (place && now >= *place) {
    const bool kept = now - *place <= kPlaceKept;
    place.reset();
    if (kept) return decision;
  }
  if (place) {
    decision.not_before = place;
    return decision;
  }
  next_ = std::max(next_, now - kTolerance);
  if (next_ > now) {
    place = next_;
    decision.not_before = place;
  }
  next_ += Step();
  return decision;
}

void EndpointHealth::GiveBack(std::uint32_t shard, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kProbing) {
    next_probe_ = std::min(next_probe_, now);
    if (probes_ > 1) --probes_;
  } else if (state_ == State::kSlowed) {
    places_[shard % kShards] = now;
  }
}

std::uint32_t EndpointHealth::Due(std::uint32_t shard, SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  if (now < held_until_) return 0;
  if (state_ == State::kProbing) return now >= next_probe_ ? 1 : 0;
  if (state_ != State::kSlowed) return UINT32_MAX;
  const auto& place = places_[shard % kShards];
  std::uint32_t due = place && now >= *place ? 1 : 0;
  if (place && now < *place) return 0;
  const auto next = std::max(next_, now - kTolerance);
  if (next <= now) due += static_cast<std::uint32_t>((now - next) / Step()) + 1;
  return due;
}

SteadyTime EndpointHealth::NextDue(std::uint32_t shard, SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  auto next = held_until_;
  if (state_ == State::kProbing) next = std::max(next, next_probe_);
  if (state_ == State::kSlowed) next = std::max(next, places_[shard % kShards].value_or(next_));
  return std::max(next, now);
}

// ---- what the answers say

std::optional<EndpointHealth::View> EndpointHealth::OnGood(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  Remember(Answer::kGood);
  if (state_ == State::kHealthy) {
    if (((failed_ | overloaded_) & kMask) == 0) Forget();
    Publish();
    return Changed(now);
  }
  if (now < held_until_) return std::nullopt;  // an answer to what was asked before
  good_since_cut_ = true;
  if (state_ == State::kProbing) {
    state_ = State::kSlowed;
    ceiling_ = std::max(1.0, full_ / 20);
    raised_at_ = now;
    Forget();
    StartPace(now);
  } else {
    const auto passed = std::clamp<Nanoseconds>(now - raised_at_, Nanoseconds(0), kLongestRaise);
    const auto before = ceiling_;
    ceiling_ += full_ * (Seconds(passed) / Seconds(kRecovery));
    raised_at_ = std::max(raised_at_, now);
    if (ceiling_ > before * 1.5) StartPace(now);  // places were given out at the old distance
  }
  if (ceiling_ >= full_) {
    state_ = State::kHealthy;
    Forget();
  }
  Publish();
  return Changed(now);
}

std::optional<EndpointHealth::View> EndpointHealth::OnBad(Answer answer, SteadyTime now, const config::Backoff& backoff,
                                                          const Rates& rates, Nanoseconds hold) {
  const std::lock_guard lock(mutex_);
  Remember(answer);
  const auto measured = std::max(1.0, rates.measured);
  // While slowed down it asks for less, and so a share by demand falls with it.
  const auto full = rates.full > 0 ? rates.full : measured;
  full_ = state_ == State::kHealthy ? full : std::max(full_, full);
  bool cut = false;
  if (!period_) {
    period_ = now;
    period_answers_ = period_bad_ = 1;
    period_overloaded_ = answer == Answer::kOverloaded ? 1 : 0;
  } else if (now - *period_ >= kPeriod) {
    cut = Bad();
    period_.reset();
  }
  if (hold > Nanoseconds(0)) {
    held_until_ = std::max(held_until_, now + hold);
    cut = cut || state_ == State::kHealthy;
  }
  if (cut) Cut(now, backoff, measured);
  Publish();
  return Changed(now);
}

void EndpointHealth::Remember(Answer answer) {
  failed_ = (failed_ << 1) | (answer == Answer::kFailed ? 1U : 0U);
  overloaded_ = (overloaded_ << 1) | (answer == Answer::kOverloaded ? 1U : 0U);
  known_ = std::min(known_ + 1, kLast);
  failed_in_row_ = answer == Answer::kGood ? 0 : failed_in_row_ + 1;
  ++period_answers_;
  period_bad_ += answer == Answer::kGood ? 0 : 1;
  period_overloaded_ += answer == Answer::kOverloaded ? 1 : 0;
}

void EndpointHealth::Forget() {
  failed_ = overloaded_ = failed_in_row_ = 0;
  known_ = 0;
  period_.reset();
}

bool EndpointHealth::Bad() const {
  if (period_answers_ >= kEnough) {
    return period_overloaded_ * 10 >= period_answers_ || period_bad_ * 2 > period_answers_;
  }
  const auto overloaded = std::popcount(overloaded_ & kMask);
  const auto bad = std::popcount((failed_ | overloaded_) & kMask);
  return overloaded >= 2 || (known_ >= static_cast<int>(kEnough) && bad * 2 > known_);
}

void EndpointHealth::Cut(SteadyTime now, const config::Backoff& backoff, double measured) {
  if (state_ == State::kHealthy) {
    state_ = State::kSlowed;
    ceiling_ = std::max(std::min(full_, measured) / 2, kFloor);
  } else if (state_ == State::kProbing || now - cut_at_ < kBetweenCuts) {
    return;
  } else if (!good_since_cut_ && (failed_in_row_ >= kLast || ceiling_ <= 2 * kFloor)) {
    state_ = State::kProbing;
    probes_ = 1;
    next_probe_ = now + ProbeWait(backoff, probes_);
  } else {
    ceiling_ = std::max(ceiling_ / 2, kFloor);
  }
  cut_at_ = raised_at_ = now;
  good_since_cut_ = false;
  StartPace(now + Step());
}

void EndpointHealth::StartPace(SteadyTime now) {
  next_ = now;
  // Who had a place keeps it before those that come anew, at the new distance.
  std::array<std::optional<SteadyTime>*, kShards> waiting{};
  std::size_t count = 0;
  for (auto& place : places_) {
    if (place) waiting[count++] = &place;
  }
  std::sort(waiting.begin(), waiting.begin() + count, [](const auto* a, const auto* b) { return **a < **b; });
  for (std::size_t i = 0; i < count; ++i, next_ += Step()) *waiting[i] = next_;
}

Nanoseconds EndpointHealth::Step() const {
  return std::max(Nanoseconds(1), Nanoseconds(static_cast<std::int64_t>(1e9 / ceiling_)));
}

void EndpointHealth::Publish() {
  restricted_.store(state_ != State::kHealthy, std::memory_order_relaxed);
  watching_.store(state_ != State::kHealthy || known_ > 0, std::memory_order_relaxed);
}

// ---- what there is to see

EndpointHealth::State EndpointHealth::StateAt(SteadyTime now) const {
  return now < held_until_ ? State::kHeld : state_;
}

EndpointHealth::View EndpointHealth::ShowLocked(SteadyTime now) const {
  View view;
  view.state = StateAt(now);
  switch (view.state) {
    case State::kHealthy:
      break;
    case State::kSlowed:
      view.ceiling = ceiling_;
      break;
    case State::kProbing:
      view.until = next_probe_;
      break;
    case State::kHeld:
      view.until = held_until_;
      break;
  }
  return view;
}

EndpointHealth::View EndpointHealth::Show(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  return ShowLocked(now);
}

std::optional<EndpointHealth::View> EndpointHealth::Changed(SteadyTime now) {
  const auto state = StateAt(now);
  if (state == shown_) return std::nullopt;
  shown_ = state;
  return ShowLocked(now);
}

}  // namespace posthorn::delivery
