// The endpoint's health in virtual time: how fast it slows down, how fast it recovers, and what no history may break.
#include "worker/delivery/endpoint_health.h"
#include "tests/support/histories.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "worker/delivery/backoff.h"

namespace posthorn::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Answer = EndpointHealth::Answer;
using State = EndpointHealth::State;
using runtime::SteadyTime;

const SteadyTime kStart{seconds(1'000)};

/// A subscription with more messages than it may send, on several shards, in steps of a millisecond.
struct Simulation {
  explicit Simulation(double full_rate) : full(full_rate) { backoff.jitter = config::Jitter::kNone; }

  template <typename AnswerOf>
  void Run(runtime::Nanoseconds duration, AnswerOf answer_of) {
    for (const auto end = now + duration; now < end; now += milliseconds(1)) {
      while (!in_flight.empty() && in_flight.front() <= now) {
        in_flight.pop_front();
        End(answer_of());
      }
      credit = std::min(credit + full / 1'000, 1.0 + full / 100);
      // A shard that was refused comes again when it was told to, not before.
      for (std::size_t turn = 0; turn < not_before.size() && credit >= 1; ++turn) {
        const auto shard = (first_shard + turn) % not_before.size();
        while (credit >= 1 && not_before[shard] <= now && Start(shard)) credit -= 1;
      }
    }
  }
  bool Start(std::size_t shard) {
    if (health.restricted()) {
      const auto decision = health.Ask(static_cast<std::uint32_t>(shard), now, backoff);
      if (decision.change) changes.push_back(decision.change->state);
      if (decision.not_before) {
        not_before[shard] = *decision.not_before;
        EXPECT_GT(*decision.not_before, now);
        longest_refusal = std::max(longest_refusal, *decision.not_before - now);
        return false;
      }
      const auto view = health.Show(now);
      EXPECT_TRUE(view.state != State::kHeld) << "granted while held";
    }
    starts.push_back(now);
    ++by_shard[shard];
    in_flight.push_back(now + latency);
    return true;
  }
  void End(std::pair<Answer, runtime::Nanoseconds> answer) {
    std::optional<EndpointHealth::View> change;
    if (answer.first == Answer::kGood) {
      if (health.watching()) change = health.OnGood(now);
    } else {
      change = health.OnBad(answer.first, now, backoff, {static_cast<double>(Started(now - seconds(1), now)), limit},
                            answer.second);
    }
    if (change) changes.push_back(change->state);
    // As the shards' tick does: nobody sleeps over a recovery.
    for (std::size_t shard = 0; shard < not_before.size(); ++shard) {
      not_before[shard] = std::min(not_before[shard], now + milliseconds(250));
      if (health.Due(static_cast<std::uint32_t>(shard), now) > 0) not_before[shard] = now;
    }
  }
  [[nodiscard]] std::size_t Started(SteadyTime from, SteadyTime to) const {
    return static_cast<std::size_t>(std::lower_bound(starts.begin(), starts.end(), to) -
                                    std::lower_bound(starts.begin(), starts.end(), from));
  }

  EndpointHealth health;
  config::Backoff backoff;
  double full;
  double limit = full;  // 0: no max-rate
  runtime::Nanoseconds latency = milliseconds(10);
  std::size_t first_shard = 0;
  SteadyTime now = kStart;
  double credit = 0;
  std::vector<SteadyTime> not_before{SteadyTime{}, SteadyTime{}, SteadyTime{}};
  std::map<std::size_t, int> by_shard;
  std::deque<SteadyTime> in_flight;
  std::vector<SteadyTime> starts;
  std::vector<State> changes;
  runtime::Nanoseconds longest_refusal{0};
};

constexpr auto kNoHold = runtime::Nanoseconds(0);
const auto kAllGood = [] { return std::pair(Answer::kGood, kNoHold); };
const auto kAllFailed = [] { return std::pair(Answer::kFailed, kNoHold); };
const auto kAllOverloaded = [] { return std::pair(Answer::kOverloaded, kNoHold); };

TEST(EndpointHealthTest, HealthyCostsNothingAndIsNotWatched) {
  Simulation s(100);
  s.Run(seconds(5), kAllGood);
  EXPECT_FALSE(s.health.restricted());
  EXPECT_FALSE(s.health.watching());
  EXPECT_EQ(s.health.Show(s.now).state, State::kHealthy);
  EXPECT_GE(s.starts.size(), 495u);
}

TEST(EndpointHealthTest, AFewFailuresAreForgottenAfterTwentyGoodAnswers) {
  Simulation s(100);
  int n = 0;
  s.Run(seconds(20), [&] { return std::pair(++n % 30 == 0 ? Answer::kFailed : Answer::kGood, kNoHold); });
  EXPECT_TRUE(s.changes.empty());
  s.Run(seconds(1), kAllGood);
  EXPECT_FALSE(s.health.watching());
}

TEST(EndpointHealthTest, FallsWithinASecondThenProbesThenIsBackWithinTen) {
  for (const double rate : {10.0, 60.0, 100.0, 400.0}) {
    for (const bool limited : {true, false}) {
      for (const bool overloaded : {true, false}) {
        SCOPED_TRACE(std::to_string(rate) + (limited ? " limited" : "") + (overloaded ? " overloaded" : ""));
        Simulation s(rate);
        s.limit = limited ? rate : 0;
        s.Run(seconds(3), kAllGood);
        const auto failed = s.now;
        if (overloaded) {
          s.Run(seconds(20), kAllOverloaded);
        } else {
          s.Run(seconds(20), kAllFailed);
        }
        EXPECT_LE(static_cast<double>(s.Started(failed + seconds(1), failed + seconds(2))), 0.6 * rate + 4);
        EXPECT_EQ(s.health.Show(s.now).state, State::kProbing);
        // One per kLongestProbe by now.
        EXPECT_LE(s.Started(failed + seconds(9), failed + seconds(20)), 6u);
        EXPECT_GE(s.Started(failed + seconds(9), failed + seconds(20)), 4u);
        const auto probe = s.health.Show(s.now).until;
        s.Run(probe - s.now + seconds(8), kAllGood);
        EXPECT_EQ(s.health.Show(s.now).state, State::kHealthy);
        // It comes back step by step, not at once.
        EXPECT_LE(static_cast<double>(s.Started(probe, probe + seconds(1))), std::max(0.35 * rate, 4.0));
        const auto recovered = s.now;
        s.Run(seconds(2), kAllGood);
        EXPECT_GE(static_cast<double>(s.Started(recovered, s.now)), 2 * rate * 0.98 - 1);
        EXPECT_EQ(s.changes, (std::vector{State::kSlowed, State::kProbing, State::kSlowed, State::kHealthy}));
      }
    }
  }
}

TEST(EndpointHealthTest, AnOutageOfThreeSecondsIsOverTenSecondsLater) {
  for (const double rate : {20.0, 100.0, 500.0}) {
    SCOPED_TRACE(rate);
    Simulation s(rate);
    s.Run(seconds(3), kAllGood);
    s.Run(seconds(3), kAllOverloaded);
    s.Run(seconds(9), kAllGood);
    const auto then = s.now;
    s.Run(seconds(1), kAllGood);
    EXPECT_GE(static_cast<double>(s.Started(then, s.now)), rate * 0.98 - 1);
  }
}

TEST(EndpointHealthTest, AMixtureFindsAMiddleAndNeverStops) {
  Simulation s(200);
  std::mt19937 random(7);
  // Overloads beyond 100 a second, as far as the endpoint can tell from the last tenth.
  s.Run(seconds(60), [&] {
    const bool over = s.Started(s.now - milliseconds(200), s.now) > 20;
    return std::pair(over ? Answer::kOverloaded : Answer::kGood, kNoHold);
  });
  const auto rate = static_cast<double>(s.Started(s.now - seconds(40), s.now)) / 40;
  EXPECT_GT(rate, 40);
  EXPECT_LT(rate, 140);
}

TEST(EndpointHealthTest, NothingStartsWhileHeld) {
  Simulation s(100);
  s.Run(seconds(2), kAllGood);
  const auto asked = s.now;
  s.Run(milliseconds(30), [] { return std::pair(Answer::kOverloaded, runtime::Nanoseconds(seconds(2))); });
  EXPECT_EQ(s.health.Show(s.now).state, State::kHeld);
  s.Run(seconds(2), kAllGood);
  EXPECT_LE(s.Started(asked + milliseconds(2), asked + seconds(2)), 2u);
  s.Run(seconds(8), kAllGood);
  EXPECT_EQ(s.changes, (std::vector{State::kHeld, State::kSlowed, State::kHealthy}));
}

TEST(EndpointHealthTest, NoShardComesAlwaysTooLate) {
  Simulation s(100);
  s.Run(seconds(2), kAllGood);
  // Two thirds fail: slow for long, and the first shard is always the first to ask.
  int n = 0;
  s.Run(seconds(60), [&] { return std::pair(++n % 3 == 0 ? Answer::kGood : Answer::kFailed, kNoHold); });
  s.by_shard.clear();
  s.Run(seconds(60), [&] { return std::pair(++n % 3 == 0 ? Answer::kGood : Answer::kFailed, kNoHold); });
  for (std::size_t shard = 0; shard < s.not_before.size(); ++shard) EXPECT_GE(s.by_shard[shard], 20) << shard;
}

TEST(EndpointHealthTest, WhatWasNotSentIsNotCounted) {
  EndpointHealth health;
  const config::Backoff backoff;
  auto now = kStart;
  // Fails throughout, until it is probed.
  for (int i = 0; health.Show(now).state != State::kProbing; ++i) {
    ASSERT_LT(i, 1'000);
    now += milliseconds(100);
    (void)health.OnBad(Answer::kFailed, now, backoff, {10, 10}, kNoHold);
  }
  now = health.Show(now).until;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(health.Ask(0, now, backoff).not_before);
    EXPECT_TRUE(health.Ask(1, now, backoff).not_before);
    health.GiveBack(0, now);
  }
  EXPECT_EQ(health.Due(1, now), 1u);
  EXPECT_FALSE(health.Ask(1, now, backoff).not_before);
  EXPECT_EQ(health.Show(now).until - now, seconds(2)) << "the first probe after the one that began it";
}

/// Whatever comes, in whatever order.
TEST(EndpointHealthTest, RandomHistories) {
  for (std::uint64_t seed = 1; seed <= test::Histories(300u, 30u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const double rate = static_cast<double>(1 + below(300));
    Simulation s(rate);
    if (below(2) == 0) s.limit = 0;
    s.latency = milliseconds(1 + below(300));
    s.backoff.initial = milliseconds(1 + below(5'000));
    s.backoff.max = milliseconds(1 + below(90'000));
    const auto longest_hold = seconds(5);
    for (int phase = 0; phase < 8; ++phase) {
      const auto good = below(101);
      const auto overloaded = below(101);
      const auto held = below(4) == 0 ? below(20) : 0;
      s.first_shard = below(3);
      s.Run(milliseconds(below(4'000)), [&] {
        if (below(100) < good) return std::pair(Answer::kGood, kNoHold);
        const auto hold = below(100) < held ? runtime::Nanoseconds(milliseconds(below(5'000))) : kNoHold;
        return std::pair(below(100) < overloaded ? Answer::kOverloaded : Answer::kFailed, hold);
      });
      if (below(4) == 0) s.now += milliseconds(below(20'000));  // nothing to send
      const auto view = s.health.Show(s.now);
      EXPECT_EQ(s.health.restricted(), view.state != State::kHealthy);
      if (view.state == State::kSlowed) {
        EXPECT_GE(view.ceiling, 1);
        EXPECT_LE(view.ceiling, std::max(1.0, rate * 1.5));
        // Never above the ceiling: two steps of it at once at most, beside what is made up for.
        const auto from = s.now;
        const auto before = s.starts.size();
        for (int i = 0; i < 1'000; ++i) {
          const auto shard = static_cast<std::uint32_t>(below(3));
          if (!s.health.Ask(shard, s.now, s.backoff).not_before) s.starts.push_back(s.now);
          s.now += milliseconds(1);
        }
        const auto span = std::chrono::duration<double>(s.now - from + EndpointHealth::kTolerance).count();
        EXPECT_LE(static_cast<double>(s.starts.size() - before), view.ceiling * span + 4);
      }
    }
    EXPECT_LE(s.longest_refusal, std::max<runtime::Nanoseconds>(longest_hold, EndpointHealth::kLongestProbe));
    // It gets well, and so does its health.
    s.Run(EndpointHealth::kLongestProbe + seconds(10), kAllGood);
    EXPECT_EQ(s.health.Show(s.now).state, State::kHealthy);
    EXPECT_FALSE(s.health.watching());
  }
}

}  // namespace
}  // namespace posthorn::delivery
