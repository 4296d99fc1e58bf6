#pragma once

#include <cstdint>

#include "ratelimit/time.h"

namespace posthorn::ratelimit::baselines {

/// Hermes's output rate: how fast a consumer sends within its max-rate, recalculated every 30 s from the answers of
/// that time. From one per second it goes up by a fifth of what is missing each time (90 % after 11 rounds), slows down
/// where more than 5 % fail, and where most fail goes on at the slow rate, then at a heartbeat.
///
/// Sources  "Consumers rate limiter" (documentation of Hermes), with its defaults.
/// Units    Attempts per second.
class HermesOutputRate {
 public:
  struct Options {
    double start = 1;
    double slow = 1;  // one attempt per slow-mode delay (1 s in the code, 60 s in the documentation)
    double heartbeat = 1.0 / 60;
    double increase = 0.2;  // of what is missing
    double decrease = 0.8;
    double good = 0.01;  // part of failures up to which the rate grows
    double bad = 0.05;   // and from which it falls
  };
  enum class Mode : std::uint8_t { kNormal, kSlow, kHeartbeat };

  explicit HermesOutputRate(const Options& options) : options_(options), rate_(options.start) {}
  HermesOutputRate() : HermesOutputRate(Options{}) {}

  double Recalculate(std::int64_t successes, std::int64_t failures, double max_rate);

  [[nodiscard]] double rate() const { return rate_; }
  [[nodiscard]] Mode mode() const { return mode_; }

 private:
  void Normal(std::int64_t successes, std::int64_t failures, double max_rate);

  Options options_;
  double rate_;
  Mode mode_ = Mode::kNormal;
};

/// What lets the attempts out at the output rate: one at a time, and up to a second's worth of permits that nobody took
/// is stored. After an idle second twice the rate goes out in the next. Whoever waits sleeps until the time it was told
/// first, whatever the rate becomes meanwhile.
///
/// Sources  Documentation of Guava's RateLimiter.create (bursts of one second), which Hermes uses.
/// Threads  One: Hermes has one sending thread per subscription.
class HermesPacer {
 public:
  HermesPacer(double rate, WallTime now) : rate_(rate), next_free_(now) {}

  void SetRate(double rate, WallTime now);

  /// True: the attempt that waits starts now. False: it goes on waiting; ask again later, for the same attempt.
  bool Take(WallTime now);

 private:
  void Store(WallTime now);

  double rate_;
  double stored_ = 0;
  WallTime next_free_;
  bool sleeping_ = false;
  WallTime wakes_{};
};

}  // namespace posthorn::ratelimit::baselines
