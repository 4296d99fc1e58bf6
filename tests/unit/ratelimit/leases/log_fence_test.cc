#include "ratelimit/leases/log_fence.h"

#include <gtest/gtest.h>

namespace posthorn::ratelimit {
namespace {

Grant OfEpoch(std::uint64_t number) {
  Grant grant;
  grant.id.epoch = number;
  return grant;
}

TEST(LogFenceTest, NothingCountsBeforeTheFirstEpoch) {
  LogFence fence;
  EXPECT_FALSE(fence.Accept(OfEpoch(1)));
  EXPECT_EQ(fence.in_force(), std::nullopt);
}

TEST(LogFenceTest, OfTwoThatRaceForANumberTheFirstInTheLogHasIt) {
  LogFence fence;
  EXPECT_TRUE(fence.Accept(Epoch{4, 100}));
  EXPECT_FALSE(fence.Accept(Epoch{4, 200}));
  EXPECT_TRUE(fence.Accept(OfEpoch(4)));
}

TEST(LogFenceTest, GrantsOfASupersededOwnerAreVoidFromTheNextEpochOn) {
  LogFence fence;
  ASSERT_TRUE(fence.Accept(Epoch{4, 100}));
  ASSERT_TRUE(fence.Accept(Epoch{6, 200}));
  EXPECT_FALSE(fence.Accept(OfEpoch(4)));
  EXPECT_FALSE(fence.Accept(OfEpoch(5)));
  EXPECT_TRUE(fence.Accept(OfEpoch(6)));
  EXPECT_FALSE(fence.Accept(OfEpoch(7)));
  EXPECT_FALSE(fence.Accept(Epoch{4, 100, true}));
  EXPECT_EQ(fence.in_force(), 6U);
}

TEST(LogFenceTest, ARenewalTellsAReaderThatStartsInTheMiddle) {
  LogFence fence;
  EXPECT_TRUE(fence.Accept(Epoch{4, 100, true}));
  EXPECT_TRUE(fence.Accept(OfEpoch(4)));
}

}  // namespace
}  // namespace posthorn::ratelimit
