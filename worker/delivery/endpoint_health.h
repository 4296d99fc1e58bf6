#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "config/model.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// What the answers of an endpoint allow one subscription to ask of it, in this worker, beside its max-rate.
///
///     healthy  no ceiling of its own
///     slowed   halved each second in which a tenth of the answers said overload or most attempts failed; each success
///              raises it by what passed since the last one, so that it is full after kRecovery
///     probing  everything fails: one attempt per backoff, and per kLongestProbe at the latest; the first success
///              leads back to `slowed`, from a twentieth of the full rate
///     held     the endpoint named a time (`Retry-After`): nothing before
///
/// What is judged are the answers since the first failure, each half second anew; where these are fewer than kEnough,
/// the last 20. Whoever is refused gets a place in time of its own, one per shard: no shard comes always too late.
///
/// Units    Attempts per second.
/// Time     Given with every call; the steady clock, which may lag between threads by as much as they were held up.
/// Threads  Any.
/// Cost     While healthy and without a failure among the last 20: one relaxed load per attempt and one per answer.
///          Otherwise a short lock.
class EndpointHealth {
 public:
  static constexpr std::uint32_t kShards = 64;
  static constexpr runtime::Nanoseconds kPeriod = std::chrono::milliseconds(500);
  static constexpr runtime::Nanoseconds kBetweenCuts = std::chrono::seconds(1);
  static constexpr runtime::Nanoseconds kRecovery = std::chrono::seconds(6);
  static constexpr runtime::Nanoseconds kLongestRaise = std::chrono::seconds(2);  // by one success
  static constexpr runtime::Nanoseconds kLongestProbe = std::chrono::seconds(2);
  static constexpr runtime::Nanoseconds kTolerance = std::chrono::milliseconds(20);  // made up for after a late wake-up
  static constexpr std::uint32_t kEnough = 5;
  static constexpr int kLast = 20;

  enum class State : std::uint8_t { kHealthy, kSlowed, kProbing, kHeld };
  enum class Answer : std::uint8_t { kGood, kFailed, kOverloaded };
  /// What the ceiling is measured by when an attempt fails.
  struct Rates {
    double measured = 0;  // attempts started in the last second
    double full = 0;      // what the limit allows this worker; 0: no limit, the highest rate measured counts
  };
  struct View {
    State state = State::kHealthy;
    double ceiling = 0;              // 0 while healthy or held
    runtime::SteadyTime until = {};  // held: the end of it; probing: the next probe
    bool operator==(const View&) const = default;
  };
  struct Decision {
    std::optional<runtime::SteadyTime> not_before;  // unset: an attempt may start now, and is counted
    std::optional<View> change;                     // of the state, seen by this call
  };

  EndpointHealth() = default;
  EndpointHealth(const EndpointHealth&) = delete;
  EndpointHealth& operator=(const EndpointHealth&) = delete;

  /// False: attempts start without asking.
  [[nodiscard]] bool restricted() const { return restricted_.load(std::memory_order_relaxed); }
  /// False: nothing to learn from a good answer.
  [[nodiscard]] bool watching() const { return watching_.load(std::memory_order_relaxed); }

  /// May `shard` start an attempt now? Never refuses for longer than the hold or kLongestProbe, whichever is longer.
  [[nodiscard]] Decision Ask(std::uint32_t shard, runtime::SteadyTime now, const config::Backoff& backoff);
  /// The attempt granted to `shard` was not made after all.
  void GiveBack(std::uint32_t shard, runtime::SteadyTime now);
  /// How many attempts Ask would grant to `shard` now, one after the other.
  [[nodiscard]] std::uint32_t Due(std::uint32_t shard, runtime::SteadyTime now) const;
  /// When Due() will be above 0 as far as is known; not before `now`.
  [[nodiscard]] runtime::SteadyTime NextDue(std::uint32_t shard, runtime::SteadyTime now) const;

  /// An attempt ended. Returns the new state when that changed it.
  std::optional<View> OnGood(runtime::SteadyTime now);
  /// `answer` is not kGood. `hold`: the endpoint asked for this wait, already capped; 0: it did not.
  std::optional<View> OnBad(Answer answer, runtime::SteadyTime now, const config::Backoff& backoff, const Rates& rates,
                            runtime::Nanoseconds hold);

  [[nodiscard]] View Show(runtime::SteadyTime now) const;

 private:
  // All under mutex_.
  [[nodiscard]] State StateAt(runtime::SteadyTime now) const;
  [[nodiscard]] View ShowLocked(runtime::SteadyTime now) const;
  [[nodiscard]] std::optional<View> Changed(runtime::SteadyTime now);
  [[nodiscard]] runtime::Nanoseconds Step() const;
  [[nodiscard]] bool Bad() const;
  void Remember(Answer answer);
  void Forget();
  void Cut(runtime::SteadyTime now, const config::Backoff& backoff, double measured);
  void StartPace(runtime::SteadyTime now);
  void Publish();

  std::atomic<bool> restricted_{false};
  std::atomic<bool> watching_{false};

  mutable std::mutex mutex_;
  State state_ = State::kHealthy;  // never kHeld: that is held_until_
  State shown_ = State::kHealthy;
  double full_ = 0;
  double ceiling_ = 0;
  runtime::SteadyTime held_until_{};
  runtime::SteadyTime cut_at_{};
  runtime::SteadyTime raised_at_{};
  bool good_since_cut_ = false;

  // Newest in the lowest bit.
  std::uint32_t failed_ = 0;
  std::uint32_t overloaded_ = 0;
  int known_ = 0;
  std::uint32_t failed_in_row_ = 0;
  std::optional<runtime::SteadyTime> period_;  // its start
  std::uint32_t period_answers_ = 0;
  std::uint32_t period_bad_ = 0;
  std::uint32_t period_overloaded_ = 0;

  runtime::SteadyTime next_{};  // slowed: the next free place
  std::array<std::optional<runtime::SteadyTime>, kShards> places_{};
  runtime::SteadyTime next_probe_{};
  std::uint32_t probes_ = 0;  // since everything fails
};

/// "healthy", "slowed", "probing", "held".
const char* ToString(EndpointHealth::State state);

}  // namespace posthorn::delivery
