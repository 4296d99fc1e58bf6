#include "worker/cli/sink_behaviour.h"

#include <gtest/gtest.h>

namespace posthorn::cli {
namespace {

using namespace std::chrono_literals;

TEST(SinkBehaviourTest, Shares) {
  EXPECT_EQ(ParseShare("30%"), 0.3);
  EXPECT_EQ(ParseShare("0.25"), 0.25);
  EXPECT_EQ(ParseShare("0"), 0.0);
  EXPECT_EQ(ParseShare("100%"), 1.0);
  for (const char* text : {"", "%", "-1%", "101%", "1.5", "x", "30 %", "nan", "inf"}) {
    EXPECT_EQ(ParseShare(text), std::nullopt) << text;
  }
}

TEST(SinkBehaviourTest, Latencies) {
  SinkBehaviour b;
  ASSERT_TRUE(ParseLatency("50ms", b));
  EXPECT_EQ(b.latency_min, 50ms);
  EXPECT_EQ(b.latency_max, 50ms);
  ASSERT_TRUE(ParseLatency("10ms-2s", b));
  EXPECT_EQ(b.latency_min, 10ms);
  EXPECT_EQ(b.latency_max, 2s);
  const SinkBehaviour before = b;
  for (const char* text : {"", "50", "ms", "-5ms", "2s-1s", "1h", "99999999s", "10ms-"}) {
    EXPECT_FALSE(ParseLatency(text, b)) << text;
  }
  EXPECT_EQ(b, before);
}

TEST(SinkBehaviourTest, JsonChangesWhatItNames) {
  SinkBehaviour b;
  EXPECT_EQ(ChangeByJson(R"({"status":204,"fail":"30%","latency_ms":[10,200],"retry_after":2})", b), std::nullopt);
  EXPECT_EQ(b.status, 204);
  EXPECT_EQ(b.fail, 0.3);
  EXPECT_EQ(b.fail_status, 503);
  EXPECT_EQ(b.latency_min, 10ms);
  EXPECT_EQ(b.latency_max, 200ms);
  EXPECT_EQ(b.retry_after, 2);
  EXPECT_EQ(ChangeByJson(R"({"retry_after":null,"latency_ms":5,"fail":1,"reset":"5%","poison":"1%"})", b),
            std::nullopt);
  EXPECT_EQ(b.retry_after, std::nullopt);
  EXPECT_EQ(b.latency_max, 5ms);
  EXPECT_EQ(b.fail, 1);
  EXPECT_EQ(b.reset, 0.05);
  EXPECT_EQ(b.poison, 0.01);
  EXPECT_EQ(b.status, 204);
}

TEST(SinkBehaviourTest, PoisonIsAlwaysTheSameMessages) {
  int poisoned = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto id = "orders-3-" + std::to_string(i);
    EXPECT_FALSE(IsPoisoned(id, 0));
    EXPECT_TRUE(IsPoisoned(id, 1));
    if (!IsPoisoned(id, 0.1)) continue;
    ++poisoned;
    EXPECT_TRUE(IsPoisoned(id, 0.2));
  }
  EXPECT_NEAR(poisoned, 1000, 200);
}

TEST(SinkBehaviourTest, BadJsonChangesNothing) {
  SinkBehaviour b;
  for (const char* text :
       {"", "[]", "{", R"({"status":20})", R"({"status":204,"fail":2})", R"({"other":1})", R"({"latency_ms":[2,1]})",
        R"({"latency_ms":[1]})", R"({"retry_after":-1})", R"({"status":"x"})", R"({"poison":-1})"}) {
    EXPECT_NE(ChangeByJson(text, b), std::nullopt) << text;
  }
  EXPECT_EQ(b, SinkBehaviour{});
}

TEST(SinkBehaviourTest, JsonGoesRound) {
  SinkBehaviour b;
  b.status = 202;
  b.fail = 0.125;
  b.reset = 0.5;
  b.poison = 0.25;
  b.latency_max = 70ms;
  b.retry_after = 9;
  SinkBehaviour copy;
  EXPECT_EQ(ChangeByJson(ToJson(b), copy), std::nullopt);
  EXPECT_EQ(copy, b);
}

}  // namespace
}  // namespace posthorn::cli
