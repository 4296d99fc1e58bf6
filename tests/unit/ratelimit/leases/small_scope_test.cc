// Everything that can happen in a small world of leases: no label above its total in any state that can be reached.

#include <gtest/gtest.h>

#include <cstdio>

#include "../fleet.h"
#include "small_world.h"

namespace posthorn::ratelimit {
namespace {

using testing::Scope;
using testing::SmallWorld;

struct Explored {
  std::size_t states = 0;
  std::size_t events = 0;
  std::string broken;  // the events that lead to a label above its total
};

/// States by fingerprint: open addressing, 16 bytes each.
class Seen {
 public:
  bool Insert(const StateBytes& key) {
    if ((size_ + 1) * 4 > table_.size() * 3) Grow();
    if (!Place(table_, key)) return false;
    ++size_;
    return true;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr StateBytes kEmpty{0, 0};
  static bool Place(std::vector<StateBytes>& table, const StateBytes& key) {
    std::size_t at = key.low & (table.size() - 1);
    while (table[at] != kEmpty) {
      if (table[at] == key) return false;
      at = (at + 1) & (table.size() - 1);
    }
    table[at] = key;
    return true;
  }
  void Grow() {
    std::vector<StateBytes> larger(table_.size() * 2, kEmpty);
    for (const auto& key : table_) {
      if (key != kEmpty) Place(larger, key);
    }
    table_ = std::move(larger);
  }
  std::vector<StateBytes> table_ = std::vector<StateBytes>(1 << 16, kEmpty);
  std::size_t size_ = 0;
};

Explored Explore(const Scope& scope, std::size_t most = SIZE_MAX) {
  struct Step {
    SmallWorld world;
    const char* what;
    std::size_t depth;
  };
  Explored explored;
  Seen seen;
  std::vector<Step> stack;
  std::vector<const char*> path;
  stack.push_back({SmallWorld(scope), "start", 0});
  seen.Insert(stack.back().world.Fingerprint());
  while (!stack.empty() && explored.broken.empty() && seen.size() < most) {
    const Step step = std::move(stack.back());
    stack.pop_back();
    path.resize(step.depth);
    path.push_back(step.what);
    if (step.world.Broken()) {
      for (const char* what : path) explored.broken.append(what).append(", ");
      break;
    }
    step.world.Successors([&](const SmallWorld& next, const char* what) {
      ++explored.events;
      if (seen.Insert(next.Fingerprint())) stack.push_back({next, what, step.depth + 1});
    });
  }
  explored.states = seen.size();
  return explored;
}

Scope Within(const char* rate, int deliveries, int crashes, int takeovers, int losses, int copies) {
  Scope scope;
  scope.rate = rate;
  scope.deliveries = deliveries;
  scope.crashes = crashes;
  scope.takeovers = takeovers;
  scope.losses = losses;
  scope.copies = copies;
  return scope;
}

struct Named {
  const char* name;
  Scope scope;
};
void PrintTo(const Named& world, std::ostream* out) { *out << world.name; }

class SmallScope : public ::testing::TestWithParam<Named> {};

TEST_P(SmallScope, NoStateIsAboveTheTotal) {
  const Explored explored = Explore(GetParam().scope);
  std::printf("%s: %zu states, %zu events\n", GetParam().name, explored.states, explored.events);
  EXPECT_EQ(explored.broken, "");
}

#ifdef POSTHORN_SANITIZED
INSTANTIATE_TEST_SUITE_P(Worlds, SmallScope, ::testing::Values(Named{"Reports", Within("1/s", 2, 0, 0, 0, 0)}),
                         [](const auto& world) { return world.param.name; });
#else
Scope WithSlots(Scope scope) {
  scope.slots = 2;
  return scope;
}
Scope Changing(Scope scope, const char* later_rate) {
  scope.later_rate = later_rate;
  return scope;
}
Scope AfterDemandMoved(Scope scope) {
  scope.moved = true;
  return scope;
}
INSTANTIATE_TEST_SUITE_P(Worlds, SmallScope,
                         ::testing::Values(Named{"EverythingOfOne", Within("1/s", 1, 1, 1, 1, 1)},
                                           Named{"CrashAndLossOfOne", Within("1/s", 2, 1, 0, 1, 0)},
                                           Named{"CrashOfTwo", Within("2/s", 2, 1, 0, 0, 0)},
                                           Named{"LossAndLateCopyOfTwo", Within("2/s", 2, 0, 0, 1, 1)},
                                           Named{"TakeOverOfOne", Within("1/s", 1, 0, 1, 0, 0)},
                                           Named{"RaceOfTwo", Within("2/s", 1, 0, 2, 0, 0)},
                                           Named{"TakeOverAndCrashOfTwo", Within("2/s", 1, 1, 1, 0, 0)},
                                           Named{"TakeOverAfterDemandMoved",
                                                 AfterDemandMoved(Within("2/s", 1, 0, 1, 0, 0))},
                                           Named{"SlotsOfTwo", WithSlots(Within("2/s", 2, 0, 0, 0, 0))},
                                           Named{"LoweredFromTwoToOne", Changing(Within("2/s", 1, 0, 0, 0, 0), "1/s")}),
                         [](const auto& world) { return world.param.name; });

struct RemovedIn {
  const char* name;
  Mutation rule;
  Scope scope;
};
void PrintTo(const RemovedIn& rule, std::ostream* out) { *out << rule.name; }
class SmallScopeMutants : public ::testing::TestWithParam<RemovedIn> {};

TEST_P(SmallScopeMutants, AreFound) {
  Scope scope = GetParam().scope;
  scope.mutation = GetParam().rule;
  const Explored explored = Explore(scope);
  std::printf("%s: found after %zu states: %s\n", GetParam().name, explored.states, explored.broken.c_str());
  EXPECT_NE(explored.broken, "");
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SmallScopeMutants,
    ::testing::Values(
        RemovedIn{"FreeBeforeAck", Mutation::kFreeBeforeAck, Within("1/s", 2, 0, 0, 0, 0)},
        RemovedIn{"GrowthIgnoresFree", Mutation::kGrowthIgnoresFree, Within("1/s", 2, 0, 0, 0, 0)},
        RemovedIn{"SuccessorWithoutReplay", Mutation::kSuccessorWithoutReplay, Within("1/s", 2, 0, 1, 0, 0)},
        RemovedIn{"NaiveAck", Mutation::kNaiveAck, Within("1/s", 3, 1, 1, 1, 0)},
        RemovedIn{"ReraiseToExposure", Mutation::kReraiseToExposure, AfterDemandMoved(Within("2/s", 2, 0, 1, 0, 0))},
        RemovedIn{"FallbackNotCounted", Mutation::kFallbackNotCounted, WithSlots(Within("1/s", 2, 0, 0, 0, 0))},
        RemovedIn{"UnfencedLog", Mutation::kUnfencedLog, Within("1/s", 2, 0, 1, 0, 0)},
        RemovedIn{"AnyOrder", Mutation::kAnyOrder, Within("1/s", 3, 0, 0, 0, 1)}),
    [](const auto& rule) { return rule.param.name; });
#endif

}  // namespace
}  // namespace posthorn::ratelimit
