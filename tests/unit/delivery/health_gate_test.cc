// The endpoint's health at work on shards: who is slowed down, who waits, and who is not disturbed by it.
#include <gmock/gmock.h>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using State = EndpointHealth::State;

class HealthGateTest : public ShardTest {
 protected:
  /// Lets time pass; every request is answered when it comes, by its subscription.
  template <typename AnswerOf>
  void Run(runtime::Nanoseconds duration, AnswerOf answer_of) {
    for (const auto end = world.clock.Read().steady + duration; world.clock.Read().steady < end;) {
      for (auto& each : senders) {
        while (!each->pending.empty()) {
          const auto response = answer_of(each->pending.front().request.subscription);
          each->Answer(response.verdict, response.status, response.retry_after);
        }
      }
      world.Advance(milliseconds(5));
    }
  }
  std::size_t WrittenSince(const std::string& name, runtime::SteadyTime from, std::size_t shard = 0) {
    const auto& all = senders[shard]->written;
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [&](const auto& w) { return w.subscription == name && w.at.steady >= from; }));
  }
  State Health(const std::string& name = "s") { return Shared(name)->health.Show(world.clock.Read().steady).state; }
  runtime::SteadyTime Time() { return world.clock.Read().steady; }
};

const auto kOk = [](const std::string&) { return test::Respond(Verdict::kDelivered, 200); };
const auto kBusy = [](const std::string&) { return test::Respond(Verdict::kOverload, 503); };

TEST_F(HealthGateTest, SlowsDownForAnOverloadedEndpointAndComesBack) {
  limiters["s"] = MakeLimiter("100/s");
  world.Advance(seconds(2));
  Simple(5'000);
  Run(seconds(2), kOk);
  const auto busy = Time();
  Run(seconds(3), kBusy);
  EXPECT_NE(Health(), State::kHealthy);
  EXPECT_LE(WrittenSince("s", busy + seconds(1)), 90u) << "in two seconds";
  Run(seconds(9), kOk);
  EXPECT_EQ(Health(), State::kHealthy);
  const auto back = Time();
  Run(seconds(2), kOk);
  EXPECT_GE(WrittenSince("s", back), 195u);
}

TEST_F(HealthGateTest, OneThatIsHeldBackDisturbsNobodyUnderItsLimit) {
  Sub("dead").limit = Sub("well").limit = "l";
  limiters["dead"] = limiters["well"] = MakeLimiter("100/s");
  world.Advance(seconds(2));
  Log()->AppendMany(6'000);
  Apply();
  AddPartition();
  AddLane("dead");
  AddLane("well");
  const auto answer = [](const std::string& name) {
    return name == "dead" ? test::Respond(Verdict::kRetry, 500) : test::Respond(Verdict::kDelivered, 200);
  };
  Run(seconds(6), answer);
  EXPECT_EQ(Health("dead"), State::kProbing);
  EXPECT_EQ(Health("well"), State::kHealthy);
  const auto from = Time();
  Run(seconds(10), answer);
  EXPECT_GE(WrittenSince("well", from), 980u);
  const auto probes = WrittenSince("dead", from);
  EXPECT_GE(probes, 4u);
  EXPECT_LE(probes, 6u);
}

TEST_F(HealthGateTest, RetryAfterHoldsTheSubscriptionAndItsMessagesKeepTheirOwnTimes) {
  Sub("s").ttl = seconds(3);
  Sub("s").max_in_flight = 1;
  Simple(50);
  sender().Answer(Verdict::kOverload, 503, seconds(2));
  world.RunReady();
  EXPECT_EQ(Health(), State::kHeld);
  EXPECT_TRUE(sender().pending.empty());
  world.Advance(milliseconds(1'990));
  EXPECT_TRUE(sender().pending.empty());
  world.Advance(milliseconds(20));
  ASSERT_EQ(sender().pending.size(), 1u);
  const auto second = sender().pending[0].request.offset;
  sender().Answer(Verdict::kOverload, 503, seconds(600));
  world.RunReady();
  EXPECT_EQ(dead_letters.written.size(), 1u) << "the next attempt of " << second << " would lie past its TTL";
  world.Advance(seconds(2));
  EXPECT_EQ(Health(), State::kHeld);
  EXPECT_EQ(dead_letters.written.size(), 2u) << "the TTL of the other one that was tried goes on meanwhile";
  world.Advance(seconds(599));
  ASSERT_EQ(sender().pending.size(), 1u);
  EXPECT_EQ(sender().pending[0].request.offset, 2) << "never tried: its TTL has not begun";
}

TEST_F(HealthGateTest, RetryAfterIsCapped) {
  Sub("s").retry_after_max = seconds(1);
  Simple(50);
  sender().Answer(Verdict::kOverload, 429, seconds(600));
  world.RunReady();
  OkAll();
  world.Advance(milliseconds(1'600));
  EXPECT_FALSE(sender().pending.empty());
}

TEST_F(HealthGateTest, BothShardsOfASlowSubscriptionGetTheirTurn) {
  MakeShards(2);
  Sub("s").backoff.initial = Sub("s").backoff.max = milliseconds(100);
  limiters["s"] = MakeLimiter("100/s");
  world.Advance(seconds(2));
  Simple(4'000);
  Log({"t", 1})->AppendMany(4'000);
  AddPartition({"t", 1}, 0, 1);
  AddLane("s", {"t", 1}, 0, 1);
  int n = 0;
  const auto two_of_three_fail = [&](const std::string&) {
    return ++n % 3 == 0 ? test::Respond(Verdict::kDelivered, 200) : test::Respond(Verdict::kRetry, 500);
  };
  Run(seconds(10), two_of_three_fail);
  const auto from = Time();
  Run(seconds(30), two_of_three_fail);
  EXPECT_GE(WrittenSince("s", from, 0), 30u);
  EXPECT_GE(WrittenSince("s", from, 1), 30u);
}

TEST_F(HealthGateTest, ALaneThatIsHeldBackIsClosedLikeAnyOther) {
  Simple(50);
  while (!sender().pending.empty()) sender().Answer(Verdict::kOverload, 503, seconds(5));
  world.RunReady();
  ASSERT_EQ(Health(), State::kHeld);
  CloseAll(0);
  world.Advance(seconds(10));
  EXPECT_TRUE(sender().pending.empty());
  ExpectGaugesZero();
}

TEST_F(HealthGateTest, APausedSubscriptionGoesOnAfterItsHold) {
  Simple(50);
  while (!sender().pending.empty()) sender().Answer(Verdict::kOverload, 503, seconds(2));
  world.RunReady();
  Sub("s").paused = true;
  Apply();
  world.Advance(seconds(4));
  EXPECT_TRUE(sender().pending.empty());
  Sub("s").paused = false;
  Apply();
  world.Advance(seconds(2));
  Run(seconds(60), kOk);
  EXPECT_EQ(lane_stats->next, 50);
}

}  // namespace
}  // namespace posthorn::delivery
