// In steady state every permit is used: nobody waits while a share is left, and the shares make the whole.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using testing::At;
using testing::kFirst;
using testing::milliseconds;
using testing::Random;
using testing::Rate;
using testing::seconds;
using testing::SlotPlan;

// A worker that always has something to send: tries, and comes again when told, up to `lateness` later.
class Saturated {
 public:
  Saturated(const Plan& plan, double phase) : limiter_(plan, {{}, phase}, At(seconds(-5))) {}

  void RunUntil(WallTime end, Random& random, Nanoseconds lateness) {
    while (now_ < end) {
      const auto decision = limiter_.Acquire(now_, seconds(10));
      if (const auto* later = std::get_if<TryAgainAt>(&decision)) {
        ASSERT_GT(later->at, now_);
        now_ = later->at + random.In(Nanoseconds(0), lateness);
      } else if (std::holds_alternative<WontOpen>(decision)) {
        now_ = end;
      }
      // All of them go by the same wall clock; what it counted in the window before is final now.
      if (LabelAt(now_) != label_) {
        const Label passed = label_;
        label_ = LabelAt(now_);
        if (passed >= kFirst) used_[passed] = limiter_.UsedIn(passed);
      }
    }
  }
  [[nodiscard]] std::int64_t UsedIn(Label w) const { return used_.contains(w) ? used_.at(w) : 0; }

 private:
  Limiter limiter_;
  WallTime now_ = At(Nanoseconds(0));
  Label label_ = kFirst;
  std::map<Label, std::int64_t> used_;
};

TEST(Saturation, SlotsUseTheTotalOfEveryWindow) {
  Random random(41);
  for (int history = 0; history < 1'000; ++history) {
    const MaxRate rate =
        random.OneIn(4) ? Rate(std::to_string(random.In(1, 400)) + "/s") : random.Of(testing::SomeRates());
    const auto instances = static_cast<std::uint32_t>(random.In(1, 8));
    const auto lateness = random.OneIn(2) ? Nanoseconds(milliseconds(19)) : Nanoseconds(0);
    std::vector<std::unique_ptr<Saturated>> fleet;
    for (std::uint32_t k = 0; k < instances; ++k) {
      fleet.push_back(
          std::make_unique<Saturated>(SlotPlan(rate, k, instances, random.OneIn(3) ? Burst::kAtOnce : Burst::kSmooth),
                                      static_cast<double>(random.In(0, 999)) / 1000));
      fleet.back()->RunUntil(At(seconds(6)), random, lateness);
    }
    for (Label w = kFirst; w < kFirst + 5; ++w) {
      std::int64_t used = 0;
      for (const auto& worker : fleet) used += worker->UsedIn(w);
      ASSERT_EQ(used, rate.Total(w)) << "seed 41, history " << history << ", label " << w - kFirst << ", "
                                     << rate.ToString() << " over " << instances;
    }
  }
}

TEST(Saturation, PartitionsUseTheTotalOfEveryWindow) {
  Random random(42);
  for (int history = 0; history < 500; ++history) {
    const MaxRate rate =
        random.OneIn(4) ? Rate(std::to_string(random.In(1, 400)) + "/s") : random.Of(testing::SomeRates());
    std::vector<PartitionDealing> dealing(3);
    for (const char* topic : {"orders", "invoices"}) {
      const auto partitions = static_cast<std::uint32_t>(random.In(1, 24));
      const auto weight = static_cast<std::uint32_t>(random.In(1, 3));
      for (auto& worker : dealing) worker.topics.push_back({topic, partitions, {}, weight});
      for (std::uint32_t n = 0; n < partitions; ++n) {
        dealing[static_cast<std::size_t>(random.In(0, 2))].topics.back().owned.push_back(n);
      }
    }
    std::vector<std::unique_ptr<Saturated>> fleet;
    for (const auto& worker : dealing) {
      fleet.push_back(std::make_unique<Saturated>(Plan{rate, Burst::kSmooth, worker}, 0.3));
      fleet.back()->RunUntil(At(seconds(6)), random, Nanoseconds(0));
    }
    for (Label w = kFirst; w < kFirst + 5; ++w) {
      std::int64_t used = 0;
      for (const auto& worker : fleet) used += worker->UsedIn(w);
      ASSERT_EQ(used, rate.Total(w)) << "seed 42, history " << history << ", label " << w - kFirst;
    }
  }
}

TEST(Saturation, NinetySixInstancesAtTenASecond) {
  std::vector<std::unique_ptr<Limiter>> fleet;
  for (std::uint32_t k = 0; k < 96; ++k) {
    fleet.push_back(
        std::make_unique<Limiter>(SlotPlan(Rate("10/s"), k, 96, Burst::kSmooth), Limiter::Options{}, At(seconds(-5))));
  }
  for (Label w = kFirst; w < kFirst + 96; ++w) {
    std::int64_t used = 0;
    for (auto& limiter : fleet) used += testing::TakeAll(*limiter, StartOf(w));
    ASSERT_EQ(used, 10) << w - kFirst;
  }
}

TEST(Saturation, NinetySixInstancesAtTwoMillionASecond) {
  std::int64_t used = 0;
  std::int64_t least = Rate("2000000/s").Total(0);
  std::int64_t most = 0;
  for (std::uint32_t k = 0; k < 96; ++k) {
    Limiter limiter(SlotPlan(Rate("2000000/s"), k, 96, Burst::kSmooth), {}, At(seconds(-5)));
    std::int64_t mine = 0;
    for (int ms = 0; ms < 1000; ms += 5) mine += testing::TakeAll(limiter, At(milliseconds(ms)));
    used += mine;
    least = std::min(least, mine);
    most = std::max(most, mine);
  }
  EXPECT_EQ(used, 2'000'000);
  EXPECT_EQ(least, 20'833);
  EXPECT_EQ(most, 20'834);
}

// After a live change the new total is used in full from the second window that begins after everybody has learned of
// it.
TEST(Saturation, ChangesSettleToFullUse) {
  Random random(43);
  for (int history = 0; history < 500; ++history) {
    const MaxRate before = random.Of(testing::SomeRates());
    const MaxRate after = random.Of(testing::SomeRates());
    const auto from = static_cast<std::uint32_t>(random.In(1, 5));
    const auto to = static_cast<std::uint32_t>(random.In(1, 5));
    std::vector<std::unique_ptr<Limiter>> fleet;
    for (std::uint32_t k = 0; k < 5; ++k) {
      fleet.push_back(std::make_unique<Limiter>(SlotPlan(before, k, from), Limiter::Options{}, At(seconds(-5))));
      (void)fleet.back()->PartialLimit(At(Nanoseconds(0)));
      fleet.back()->SetPlan(SlotPlan(after, k, to), At(random.In(Nanoseconds(0), Nanoseconds(milliseconds(899)))));
    }
    for (Label w = kFirst + 2; w < kFirst + 8; ++w) {
      std::int64_t used = 0;
      for (auto& limiter : fleet) used += testing::TakeAll(*limiter, StartOf(w));
      ASSERT_EQ(used, after.Total(w)) << "seed 43, history " << history << ", label " << w - kFirst;
    }
  }
}

}  // namespace
}  // namespace posthorn::ratelimit
