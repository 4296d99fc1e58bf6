#include "worker/kafka/guard_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "worker/kafka/log_limit.h"

namespace posthorn::kafka {
namespace {

TEST(GuardState, NotConfirmedBeforeTheFirstJoin) {
  GuardState guard;
  EXPECT_FALSE(guard.Confirmed());
  EXPECT_TRUE(guard.Join());
  EXPECT_TRUE(guard.Confirmed());
  EXPECT_FALSE(guard.Join());
}

TEST(GuardState, ADoubtHoldsUntilItIsSettled) {
  GuardState guard;
  guard.Join();
  guard.Doubt();
  EXPECT_FALSE(guard.Confirmed());
  EXPECT_TRUE(guard.Settle(guard.doubt()));
  EXPECT_TRUE(guard.Confirmed());
}

TEST(GuardState, AnAnswerDoesNotSettleALaterDoubt) {
  GuardState guard;
  guard.Join();
  guard.Doubt();
  const auto asked = guard.doubt();
  guard.Doubt();
  EXPECT_FALSE(guard.Settle(asked));
  EXPECT_FALSE(guard.Confirmed());
  EXPECT_TRUE(guard.Settle(guard.doubt()));
}

TEST(GuardState, WithoutMembershipNothingIsConfirmed) {
  GuardState guard;
  guard.Join();
  guard.Doubt();
  guard.Leave();
  EXPECT_FALSE(guard.Settle(guard.doubt()));
  EXPECT_FALSE(guard.Confirmed());
  EXPECT_TRUE(guard.Join());
}

TEST(GuardState, DoubtsFromManyThreadsAllCount) {
  GuardState guard;
  guard.Join();
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ++ready;
      while (ready < 4) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) guard.Doubt();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(guard.doubt(), 4000U);
  EXPECT_FALSE(guard.Confirmed());
  EXPECT_TRUE(guard.joined());
}

TEST(LogLimit, OneLinePerKindAndInterval) {
  LogLimit limit(std::chrono::seconds(10));
  const LogLimit::Time start{};
  EXPECT_EQ(limit.Admit(1, start), 0U);
  EXPECT_EQ(limit.Admit(1, start), std::nullopt);
  EXPECT_EQ(limit.Admit(2, start), 0U);
  EXPECT_EQ(limit.Admit(1, start + std::chrono::seconds(9)), std::nullopt);
  EXPECT_EQ(limit.Admit(1, start + std::chrono::seconds(10)), 2U);
  EXPECT_EQ(limit.Admit(1, start + std::chrono::seconds(20)), 0U);
}

}  // namespace
}  // namespace posthorn::kafka
