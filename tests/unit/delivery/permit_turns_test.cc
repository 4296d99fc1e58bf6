// Several subscriptions and several shards under one limit: everybody gets a part, in proportion to what waits.
#include "worker/delivery/permit_turns.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

/// One permit at a time; the shards ask in the same order each time, as one whose timer always fires first would.
TEST(PermitTurnsTest, InProportionToTheWaitingLanesWhoeverAsksFirst) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto shards = static_cast<std::uint32_t>(2 + random() % 6);
    std::vector<std::size_t> lanes(shards), taken(shards, 0);
    std::size_t all = 0;
    for (auto& n : lanes) all += n = 1 + random() % (random() % 2 == 0 ? 3 : 100);
    PermitTurns turns;
    // One was there alone for long: that is not held against it.
    turns.SetWaiting(0, true);
    for (int i = 0; i < 1'000; ++i) turns.Took(0, lanes[0]);
    for (std::uint32_t shard = 0; shard < shards; ++shard) turns.SetWaiting(shard, true);
    constexpr std::size_t kPermits = 20'000;
    for (std::size_t i = 0; i < kPermits; ++i) {
      std::uint32_t shard = 0;
      while (shard < shards && !turns.MayGo(shard)) ++shard;
      ASSERT_LT(shard, shards) << "nobody may go";
      turns.Took(shard, lanes[shard]);
      ++taken[shard];
    }
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      const double part = static_cast<double>(kPermits * lanes[shard]) / static_cast<double>(all);
      EXPECT_NEAR(static_cast<double>(taken[shard]), part, part * 0.02 + static_cast<double>(lanes[shard]) + 2)
          << shard;
    }
  }
}

TEST(PermitTurnsTest, IdleTimeEarnsNothing) {
  PermitTurns turns;
  turns.SetWaiting(0, true);
  for (int i = 0; i < 1'000; ++i) turns.Took(0, 1);
  turns.SetWaiting(1, true);  // for the first time
  int second = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t shard = turns.MayGo(0) ? 0 : 1;
    turns.Took(shard, 1);
    second += static_cast<int>(shard);
  }
  EXPECT_GE(second, 4);
  EXPECT_LE(second, 6);
}

TEST(PermitTurnsTest, OneThatDoesNotWaitHoldsNobodyUp) {
  PermitTurns turns;
  turns.SetWaiting(0, true);
  turns.SetWaiting(1, true);
  turns.Took(0, 1);
  EXPECT_FALSE(turns.MayGo(0));
  EXPECT_TRUE(turns.MayGo(1));
  turns.SetWaiting(1, false);
  EXPECT_TRUE(turns.MayGo(0));
}

class SharedLimitTest : public ShardTest {
 protected:
  void Start(std::string_view rate, std::vector<std::pair<std::size_t, int>> lanes_on_shards) {
    MakeShards(2);
    const auto limiter = MakeLimiter(rate);
    world.Advance(seconds(2));
    for (std::size_t i = 0; i < lanes_on_shards.size(); ++i) {
      limiters[Name(i)] = limiter;
      Sub(Name(i)).topic = Name(i);
      Sub(Name(i)).max_in_flight = 1'000;
    }
    Apply();
    for (std::size_t i = 0; i < lanes_on_shards.size(); ++i) {
      const auto [shard, lanes] = lanes_on_shards[i];
      for (int lane = 0; lane < lanes; ++lane) {
        const TopicPartition id{Name(i), lane};
        Log(id)->AppendMany(300);
        AddPartition(id, 0, shard);
        AddLane(Name(i), id, 0, shard);
      }
    }
  }
  static std::string Name(std::size_t i) { return std::string(1, static_cast<char>('a' + i)); }
  std::map<std::string, int> Run(runtime::Nanoseconds duration) {
    for (auto& each : senders) each->written.clear();
    for (const auto end = world.clock.Read().steady + duration; world.clock.Read().steady < end;) {
      world.Advance(milliseconds(10));
      for (std::size_t shard = 0; shard < shards.size(); ++shard) OkAll(shard);
    }
    std::map<std::string, int> written;
    for (auto& each : senders) {
      for (const auto& w : each->written) ++written[w.subscription];
    }
    return written;
  }
};

TEST_F(SharedLimitTest, TwoShardsTakeTurnsAtOnePerSecond) {
  Start("1/s", {{0, 1}, {1, 1}});
  auto written = Run(seconds(40));
  EXPECT_NEAR(written["a"], 20, 2);
  EXPECT_NEAR(written["b"], 20, 2);
}

TEST_F(SharedLimitTest, TwoShardsTakeTurnsAtAnyRate) {
  Start("50/s", {{0, 1}, {1, 1}});
  auto written = Run(seconds(10));
  EXPECT_NEAR(written["a"], 250, 15);
  EXPECT_NEAR(written["b"], 250, 15);
}

TEST_F(SharedLimitTest, AHundredLanesDoNotStarveOne) {
  for (const std::size_t shard : {0u, 1u}) {
    Start("20/s", {{0, 100}, {shard, 1}});
    auto written = Run(seconds(102));
    EXPECT_NEAR(written["a"] + written["b"], 20 * 102, 25);
    EXPECT_GE(written["b"], 15) << "of 20, on shard " << shard;
    EXPECT_LE(written["b"], 30);
    for (std::size_t i = 0; i < shards.size(); ++i) CloseAll(i);
    feeds.clear(), logs.clear(), configs.clear(), shared.clear(), limiters.clear();
  }
}

TEST_F(SharedLimitTest, NoPermitIsLostWhenTheOtherShardHasNothing) {
  Start("10/s", {{0, 1}, {1, 0}});
  EXPECT_GE(Run(seconds(10))["a"], 99);
}

}  // namespace
}  // namespace posthorn::delivery
