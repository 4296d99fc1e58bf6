#include "ratelimit/envelope.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Random;
using testing::seconds;

Envelope SomeEnvelope(Random& random) {
  Envelope e;
  e.cap = random.In(1, random.OneIn(3) ? 2'000'000'000 : 100);
  if (random.OneIn(2)) {
    e.x0 = random.In(Nanoseconds(0), kWindow - Nanoseconds(1));
    e.n0 = random.In(0, e.cap - 1);
  }
  return e;
}

TEST(Envelope, OpensExactlyWhenItSays) {
  Random random(21);
  for (int i = 0; i < 50'000; ++i) {
    const Envelope e = SomeEnvelope(random);
    const auto n = random.In(e.n0, e.cap - 1);
    const auto opens = e.OpensAt(n);
    ASSERT_TRUE(e.Admits(n, opens)) << "seed 21, case " << i;
    if (e.x0 < kWindow - Envelope::kTail) {
      ASSERT_LT(opens, kWindow - Envelope::kTail) << "seed 21, case " << i;
      if (opens > e.x0) {
        ASSERT_FALSE(e.Admits(n, opens - Nanoseconds(1))) << "seed 21, case " << i;
      }
    }
  }
}

TEST(Envelope, FirstPermitOpensAtOnceAndTheLastBeforeTheTail) {
  const Envelope e{100, Nanoseconds(0), 0};
  EXPECT_EQ(e.OpensAt(0), Nanoseconds(0));
  EXPECT_EQ(e.OpensAt(99), std::chrono::microseconds(970'200));
  EXPECT_EQ(e.TailAllowance(), 3);
}

// One worker alone with the whole limit, so that its share is the limit.
Limiter Only(std::int64_t per_second) {
  Limiter::Options options;
  return Limiter(testing::SlotPlan(testing::Rate(std::to_string(per_second) + "/s"), 0, 1, Burst::kSmooth), options,
                 At(seconds(-2)));
}

TEST(Envelope, AnEvenLoadWithinTheLimitNeverWaits) {
  Random random(22);
  for (int i = 0; i < 2'000; ++i) {
    const std::int64_t limit = random.In(1, random.OneIn(4) ? 2000 : 30);
    Limiter limiter = Only(limit);
    const std::int64_t load = random.In(1, limit);
    const Nanoseconds first = random.In(Nanoseconds(0), kWindow);
    for (std::int64_t k = 0; k < 3 * load; ++k) {
      const WallTime now = At(first + kWindow * k / load);
      ASSERT_TRUE(std::holds_alternative<Admitted>(limiter.Acquire(now, Nanoseconds(0))))
          << "seed 22, case " << i << ": " << load << "/s of " << limit << "/s, attempt " << k;
    }
  }
}

TEST(Envelope, ASaturatedWindowIsUsedInFullAndEvenly) {
  Limiter limiter = Only(500);
  WallTime now = At(Nanoseconds(0));
  std::vector<std::int64_t> per_ten_ms(100, 0);
  while (LabelAt(now) == kFirst) {
    const auto decision = limiter.Acquire(now, seconds(2));
    if (std::holds_alternative<Admitted>(decision)) {
      ++per_ten_ms[static_cast<std::size_t>((now - At(Nanoseconds(0))) / milliseconds(10))];
    } else {
      now = std::get<TryAgainAt>(decision).at;
    }
  }
  EXPECT_EQ(limiter.UsedIn(kFirst), 500);
  for (const auto count : per_ten_ms) EXPECT_LE(count, 7);
}

TEST(Envelope, AnIdleWindowDoesNotEndInABurst) {
  Limiter limiter = Only(1000);
  EXPECT_EQ(testing::TakeAll(limiter, At(milliseconds(985))), 1 + 20);
  EXPECT_EQ(testing::TakeAll(limiter, At(milliseconds(999))), 0);
  EXPECT_EQ(testing::TakeAll(limiter, At(seconds(1))), 1);
}

}  // namespace
}  // namespace posthorn::ratelimit
