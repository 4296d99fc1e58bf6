// Random histories of fleets under leases: no label above its total; and with each rule taken away, one that is.

#include <gtest/gtest.h>

#include "../fleet.h"
#include "lease_history.h"
#include "tests/support/histories.h"

namespace posthorn::ratelimit {
namespace {

using testing::LeaseFleet;
using testing::LeaseHistory;
using testing::Outcome;
using testing::Random;

constexpr std::uint64_t kSeed = 1'000'000;
constexpr int kHistories = test::Histories(12'000, 1'500);

Outcome Histories(int count, const LeaseFleet& fleet, std::int64_t* spent = nullptr) {
  return testing::RunHistories(kSeed, count, [&](Random& random) {
    LeaseHistory history(random, fleet);
    auto broken = history.Run();
    if (spent != nullptr) *spent += history.Spent();
    return broken;
  });
}

TEST(LeaseHistories, NeverAboveTheTotal) {
  std::int64_t spent = 0;
  const Outcome outcome = Histories(kHistories, {}, &spent);
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
  EXPECT_GT(spent, outcome.histories * 5);  // and not for want of permits
  std::printf("%d histories, %lld permits spent\n", outcome.histories, static_cast<long long>(spent));
}

#ifndef POSTHORN_SANITIZED
// The same histories, the same check, one rule less.
struct Removed {
  const char* name;
  Mutation rule;
};
void PrintTo(const Removed& rule, std::ostream* out) { *out << rule.name; }
class LeaseMutants : public ::testing::TestWithParam<Removed> {};

TEST_P(LeaseMutants, AreCaught) {
  LeaseFleet fleet;
  fleet.mutation = GetParam().rule;
  int broken = 0;
  int histories = 0;
  // The rarest breaks once in seven hundred.
  testing::RunHistories(kSeed, kHistories, [&](Random& random) -> std::optional<std::string> {
    if (broken >= 3) return std::nullopt;
    ++histories;
    auto what = LeaseHistory(random, fleet).Run();
    broken += what ? 1 : 0;
    return what;
  });
  std::printf("%s: %d of %d histories above the total\n", GetParam().name, broken, histories);
  EXPECT_GT(broken, 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, LeaseMutants,
                         ::testing::Values(Removed{"FreeBeforeAck", Mutation::kFreeBeforeAck},
                                           Removed{"GrowthIgnoresFree", Mutation::kGrowthIgnoresFree},
                                           Removed{"SuccessorWithoutReplay", Mutation::kSuccessorWithoutReplay},
                                           Removed{"NaiveAck", Mutation::kNaiveAck},
                                           Removed{"ReraiseToExposure", Mutation::kReraiseToExposure},
                                           Removed{"FallbackNotCounted", Mutation::kFallbackNotCounted},
                                           Removed{"UnfencedLog", Mutation::kUnfencedLog},
                                           Removed{"AnyOrder", Mutation::kAnyOrder}),
                         [](const auto& rule) { return rule.param.name; });
#endif

}  // namespace
}  // namespace posthorn::ratelimit
