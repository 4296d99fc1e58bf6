#include "worker/fleet/control_node.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/support/histories.h"
#include "tests/unit/fleet/control_fleet.h"

namespace posthorn::fleet {
namespace {

using testing::ControlFleet;
using testing::kFirst;
using testing::Label;
using testing::milliseconds;
using testing::seconds;

constexpr std::int64_t kPlenty = 1'000'000;

struct ControlNodeTest : ::testing::Test {
  ControlFleet fleet{1, 42};

  void Begin(std::size_t workers, std::string_view rate) {
    fleet.SetRate("l", rate);
    for (std::size_t i = 0; i < workers; ++i) fleet.Add("orders-" + std::to_string(i));
    fleet.Own(0, 0);
    fleet.RunFor(seconds(5));
  }
  Label label() const { return ratelimit::LabelAt(fleet.now); }
  std::int64_t& Todo(std::size_t worker) { return fleet.workers[worker]->todo["l"]; }
};

TEST_F(ControlNodeTest, WhoeverHasTheBacklogHasThePermits) {
  Begin(3, "100/s");
  for (const std::size_t busy : {1UL, 2UL, 0UL}) {
    for (std::size_t i = 0; i < 3; ++i) Todo(i) = i == busy ? kPlenty : 0;
    const Label jumped = label();
    fleet.RunFor(seconds(8));
    for (Label w = jumped + 2; w < label(); ++w) {
      EXPECT_GE(fleet.Used("l", w), 95) << "window " << w - jumped << " after the jump";
      EXPECT_LE(fleet.Used("l", w), 100);
    }
  }
}

TEST_F(ControlNodeTest, AnIdleWorkersFirstMessageWaitsForNothing) {
  Begin(3, "100/s");
  Todo(2) = 1;
  fleet.Step();
  EXPECT_EQ(Todo(2), 0);
}

TEST_F(ControlNodeTest, OnePerSecondWithFiveWorkersIsOnePerSecond) {
  Begin(5, "1/s");
  for (std::size_t i = 0; i < 5; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(3));
  const Label from = label();
  fleet.RunFor(seconds(30));
  for (Label w = from; w < label(); ++w) EXPECT_EQ(fleet.Used("l", w), 1) << w - from;
}

TEST_F(ControlNodeTest, AKilledCoordinatorIsMissedByNobody) {
  Begin(3, "90/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(5));
  const Label killed = label();
  fleet.Kill(0);
  fleet.RunFor(seconds(6));
  for (Label w = killed + 1; w < label(); ++w) EXPECT_GE(fleet.Used("l", w), 57) << "the shares of the two others";
  fleet.Own(0, 1);
  fleet.RunFor(seconds(14));
  for (Label w = killed + 12; w < label(); ++w) EXPECT_GE(fleet.Used("l", w), 86) << w - killed;
  for (Label w = kFirst; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 90);
  EXPECT_EQ(fleet.workers[1]->node->View(fleet.workers[1]->Now()).limits[0].coordinator, "orders-1");
}

TEST_F(ControlNodeTest, WhoStopsLeavesItsPermitsToTheOthersAtOnce) {
  Begin(3, "90/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(4));
  Todo(0) = 0;
  fleet.workers[0]->node->Leave(fleet.workers[0]->Now());  // the coordinator itself
  fleet.Kill(0);
  for (int i = 0; i < 50; ++i) fleet.Step();
  fleet.Own(0, 2);
  const Label left = label();
  fleet.RunFor(seconds(5));
  for (Label w = left + 2; w < label(); ++w) EXPECT_GE(fleet.Used("l", w), 81) << w - left;
}

TEST_F(ControlNodeTest, AWorkerThatStoodStillBeyondItsLeaseUsesNothingOfIt) {
  Begin(3, "90/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(4));
  fleet.workers[2]->frozen = true;
  fleet.RunFor(seconds(20));
  fleet.workers[2]->frozen = false;
  fleet.RunFor(seconds(5));
  for (Label w = kFirst; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 90);
  EXPECT_GT(fleet.Used("l", label() - 1), 85);
}

TEST_F(ControlNodeTest, ALoweredRateIsObeyedByTheNextWindow) {
  Begin(3, "1000/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(3));
  fleet.SetRate("l", "100/s");
  fleet.TellAll();
  const Label lowered = label();
  fleet.RunFor(seconds(6));
  for (Label w = lowered + 1; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 100);
  EXPECT_GE(fleet.Used("l", label() - 1), 95);
  EXPECT_EQ(fleet.workers[0]->node->View(fleet.workers[0]->Now()).above_total, 0U);
}

TEST_F(ControlNodeTest, ALimitThatIsRemovedAndComesBackIsNotSpentTwice) {
  Begin(1, "10/s");
  Todo(0) = kPlenty;
  fleet.RunFor(seconds(2));
  for (int i = 0; i < 20; ++i) {
    const auto rate = std::exchange(fleet.rates, {});
    fleet.TellAll();
    fleet.Step();
    fleet.rates = rate;
    fleet.TellAll();
    fleet.RunFor(seconds(1));
  }
  for (Label w = kFirst; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 10);
}

TEST_F(ControlNodeTest, ABadClockStopsItsWorkerAlone) {
  Begin(2, "100/s");
  Todo(0) = Todo(1) = kPlenty;
  fleet.RunFor(seconds(3));
  auto& worker = *fleet.workers[1];
  const auto stamp = [&](milliseconds offset) {
    for (int i = 0; i < 8; ++i) {
      const auto sent = worker.Now().wall;
      worker.node->OnStored(0, sent, sent - offset, sent + milliseconds(2));
    }
  };
  stamp(milliseconds(150));
  fleet.Step();
  fleet.RunFor(seconds(1));
  EXPECT_TRUE(worker.node->View(worker.Now()).clock_fenced);
  EXPECT_FALSE(worker.candidate);
  const auto before = Todo(1);
  const Label from = label();
  fleet.RunFor(seconds(4));
  EXPECT_EQ(Todo(1), before) << "nothing is sent under limits";
  EXPECT_GE(fleet.Used("l", label() - 1), 95) << "the other one has all of it";
  for (Label w = from; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 100);
  stamp(milliseconds(20));
  fleet.RunFor(seconds(3));
  EXPECT_TRUE(worker.candidate);
  EXPECT_LT(Todo(1), before);
}

TEST_F(ControlNodeTest, ALimitThatComesBackAfterTheClockWasMendedIsDeliveredAgain) {
  Begin(1, "100/s");
  auto& worker = *fleet.workers[0];
  const auto stamp = [&](milliseconds offset) {
    const auto sent = worker.Now().wall;
    worker.node->OnStored(0, sent, sent - offset, sent + milliseconds(2));
    fleet.RunFor(seconds(1));
  };
  stamp(milliseconds(150));
  EXPECT_TRUE(worker.node->View(worker.Now()).clock_fenced);
  const auto rate = std::exchange(fleet.rates, {});
  fleet.TellAll();
  fleet.RunFor(seconds(1));
  stamp(milliseconds(0));
  fleet.Own(0, 0);
  fleet.rates = rate;
  fleet.TellAll();
  Todo(0) = kPlenty;
  fleet.RunFor(seconds(5));
  EXPECT_GE(fleet.Used("l", label() - 1), 95);
}

TEST_F(ControlNodeTest, OthersRecordsAreLeftOutAndCounted) {
  Begin(1, "100/s");
  auto& worker = *fleet.workers[0];
  auto newer = Encode(LogMessage{"x", {}});
  newer[3] = 9;
  worker.node->OnLog(0, newer, worker.Now());
  worker.node->OnLog(0, "hello", worker.Now());
  auto damaged = Encode(ReportMessage{"x", {}});
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  worker.node->OnReport(0, damaged, worker.Now());
  worker.node->OnReport(17, "of no partition here", worker.Now());
  const auto ignored = worker.node->View(worker.Now()).ignored;
  EXPECT_EQ(ignored, (std::array<std::uint64_t, 3>{1, 1, 1}));
}

TEST_F(ControlNodeTest, TellsWhatItHasAndWhatItCoordinates) {
  Begin(2, "100/s");
  Todo(1) = kPlenty;
  fleet.RunFor(seconds(3));
  const auto view = fleet.workers[1]->node->View(fleet.workers[1]->Now());
  ASSERT_EQ(view.limits.size(), 1U);
  EXPECT_EQ(view.limits[0].coordinator, "orders-0");
  EXPECT_EQ(view.limits[0].lease.cap.source, ratelimit::Lease::Source::kLease);
  EXPECT_GE(view.limits[0].lease.cap.permits, 95);
  EXPECT_FALSE(view.limits[0].waits);
  EXPECT_TRUE(view.coordinated.empty());
  const auto coordinator = fleet.workers[0]->node->View(fleet.workers[0]->Now());
  ASSERT_EQ(coordinator.coordinated.size(), 1U);
  ASSERT_EQ(coordinator.coordinated[0].limits.size(), 1U);
  const auto& limit = coordinator.coordinated[0].limits[0];
  EXPECT_EQ(limit.view.members.size(), 2U);
  EXPECT_EQ(std::set<std::string>(limit.instances.begin(), limit.instances.end()),
            (std::set<std::string>{"orders-0", "orders-1"}));
}

// A number at the end of its name makes no slot where `instances` does not count it.
struct WithoutACoordinator : ControlNodeTest, ::testing::WithParamInterface<std::optional<std::uint32_t>> {};

TEST_P(WithoutACoordinator, ItWaitsAndSaysSo) {
  fleet.SetRate("l", "100/s", GetParam());
  fleet.Add("orders-0", 0);
  fleet.Add("orders-1", 1);
  fleet.Own(0, 0);
  Todo(1) = kPlenty;
  fleet.RunFor(seconds(20));
  EXPECT_GT(fleet.Used("l", label() - 1), 0);
  fleet.Kill(0);
  fleet.RunFor(seconds(13));
  auto& worker = *fleet.workers[1];
  EXPECT_TRUE(worker.node->View(worker.Now()).limits[0].waits);
  EXPECT_EQ(fleet.Used("l", label() - 1), 0);
}

TEST_P(WithoutACoordinator, ItSaysSoAlsoWhenItNeverHadALease) {
  fleet.SetRate("l", "100/s", GetParam());
  fleet.Add("orders-0", 0);
  fleet.Add("orders-1", 1);
  fleet.RunFor(seconds(20));
  auto& worker = *fleet.workers[1];
  EXPECT_TRUE(worker.node->View(worker.Now()).limits[0].waits);
}

INSTANTIATE_TEST_SUITE_P(Slots, WithoutACoordinator, ::testing::Values(std::nullopt, std::optional<std::uint32_t>(1)));

TEST_F(ControlNodeTest, WhoWaitedHasAShareAgainAsSoonAsSomebodyCoordinates) {
  Begin(2, "100/s");
  Todo(1) = kPlenty;
  fleet.RunFor(seconds(2));
  fleet.Kill(0);
  fleet.RunFor(seconds(13));
  auto& worker = *fleet.workers[1];
  EXPECT_TRUE(worker.node->View(worker.Now()).limits[0].waits);
  fleet.Own(0, 1);
  fleet.RunFor(seconds(4));
  EXPECT_FALSE(worker.node->View(worker.Now()).limits[0].waits);
  EXPECT_GE(fleet.Used("l", label() - 1), 95);
}

TEST_F(ControlNodeTest, ALimitThatIsGoneIsForgottenByItsCoordinator) {
  Begin(1, "10/s");
  fleet.SetRate("other", "10/s");
  fleet.rates.erase("l");
  fleet.TellAll();
  fleet.RunFor(seconds(2 * ratelimit::kLongestLease + 2));
  const auto view = fleet.workers[0]->node->View(fleet.workers[0]->Now());
  ASSERT_EQ(view.coordinated.size(), 1U);
  ASSERT_EQ(view.coordinated[0].limits.size(), 1U);
  EXPECT_EQ(view.coordinated[0].limits[0].name, "other");
}

// Leases by the higher rate run on under whoever knows only of the lower one.
TEST_F(ControlNodeTest, ALoweredRateIsNoBrokenPromiseForASuccessor) {
  Begin(3, "1000/s");
  Todo(2) = kPlenty;
  fleet.RunFor(seconds(3));
  fleet.SetRate("l", "100/s");
  fleet.Tell(*fleet.workers[1]);
  fleet.Kill(0);
  fleet.RunFor(seconds(5));
  fleet.Own(0, 1);
  const Label lowered = label();
  fleet.RunFor(seconds(20));
  EXPECT_GT(fleet.Used("l", lowered), 100);
  auto& successor = *fleet.workers[1];
  EXPECT_EQ(successor.node->View(successor.Now()).above_total, 0U);
}

TEST_F(ControlNodeTest, WithSlotsThePartOfTheSlotGoesOn) {
  fleet.SetRate("l", "90/s", 3);
  for (std::uint32_t i = 0; i < 3; ++i) fleet.Add("orders-" + std::to_string(i), i);
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.Own(0, 0);
  fleet.RunFor(seconds(20));
  EXPECT_GE(fleet.Used("l", label() - 1), 85);
  fleet.Kill(0);
  fleet.RunFor(seconds(20));
  EXPECT_EQ(fleet.Used("l", label() - 1), 60);
  for (Label w = kFirst; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 90);
}

// A revision told beforehand: what every worker has before and from its label on.
struct Announcement {
  Label from = 0;
  std::string_view rate;
  std::optional<std::uint32_t> instances;
};

void Announce(ControlFleet& fleet, const Announcement& announcement) {
  fleet.SetRate("l", announcement.rate, announcement.instances);
  auto snapshot = fleet.Configuration();
  snapshot.effective_at = ratelimit::StartOf(announcement.from);
  const auto scheduled = std::make_shared<const config::Snapshot>(std::move(snapshot));
  for (auto& worker : fleet.workers) {
    if (worker) worker->book->OnScheduled(scheduled, worker->Now().wall);
  }
}

TEST_F(ControlNodeTest, ALoweredTotalIsObeyedInThatVeryWindow) {
  Begin(3, "300/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(5));
  const Label from = label() + 4;
  Announce(fleet, {from, "60/s", std::nullopt});
  fleet.RunFor(seconds(4));
  fleet.TellAll();
  fleet.RunFor(seconds(6));
  for (Label w = from - 4; w < from; ++w) EXPECT_GE(fleet.Used("l", w), 285) << w - from;
  for (Label w = from; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 60) << w - from;
  for (Label w = from; w < label(); ++w) EXPECT_GE(fleet.Used("l", w), 54) << w - from;
}

TEST_F(ControlNodeTest, ARaisedTotalIsThereInThatVeryWindow) {
  Begin(3, "60/s");
  for (std::size_t i = 0; i < 3; ++i) Todo(i) = kPlenty;
  fleet.RunFor(seconds(5));
  const Label from = label() + 4;
  Announce(fleet, {from, "300/s", std::nullopt});
  fleet.RunFor(seconds(4));
  fleet.TellAll();
  fleet.RunFor(seconds(6));
  for (Label w = from - 4; w < from; ++w) EXPECT_LE(fleet.Used("l", w), 60) << w - from;
  for (Label w = from; w < label(); ++w) EXPECT_GE(fleet.Used("l", w), 280) << w - from;
  for (Label w = from; w < label(); ++w) EXPECT_LE(fleet.Used("l", w), 300) << w - from;
}

// Totals and N changed by the label, records lost and late, workers killed and coordinators replaced: no window above
// the total on its side of the label.
TEST(ControlNodeHistories, NeverAboveTheTotalOnItsSideOfTheLabel) {
  constexpr std::array<std::string_view, 5> kRates{"300/s", "100/s", "37/s", "5/s", "1/s"};
  for (std::uint64_t seed = 1; seed <= test::Histories(40u, 8u); ++seed) {
    ControlFleet fleet(1, seed);
    const auto some = [&](std::uint64_t n) { return static_cast<std::size_t>(fleet.random() % n); };
    const bool slots = some(2) == 0;
    fleet.topics.loss = some(3) == 0 ? 0.2 : 0.0;
    fleet.topics.most = milliseconds(10 + 40 * some(10));
    std::uint32_t instances = 4;
    const auto number = [&] { return slots ? std::optional(instances) : std::nullopt; };
    std::string_view before = kRates.at(some(kRates.size()));
    fleet.SetRate("l", before, number());
    for (std::uint32_t i = 0; i < 4; ++i) {
      auto& worker = fleet.Add("orders-" + std::to_string(i), slots ? std::optional(i) : std::nullopt);
      worker.clock = milliseconds(static_cast<std::int64_t>(some(80)) - 40);
      worker.todo["l"] = kPlenty;
    }
    fleet.Own(0, 0);
    // Until everybody has settled with what is first: leases and slots are counted together until then.
    fleet.RunFor(seconds(20));
    std::map<Label, std::string_view> rate_from{{0, before}};
    for (int round = 0; round < 3; ++round) {
      const Label from = ratelimit::LabelAt(fleet.now) + 2 + static_cast<Label>(some(12));
      const auto rate = kRates.at(some(kRates.size()));
      instances = static_cast<std::uint32_t>(4 + some(3));
      Announce(fleet, {from, rate, number()});
      rate_from[from] = rate;
      if (some(3) == 0) fleet.Own(0, 1 + some(2));
      if (some(4) == 0 && fleet.workers[3]) fleet.Kill(3);
      while (fleet.now < ratelimit::StartOf(from) + milliseconds(50)) fleet.Step();
      fleet.TellAll();
      fleet.RunFor(seconds(static_cast<std::int64_t>(14 + some(8))));
    }
    for (Label w = kFirst; w < ratelimit::LabelAt(fleet.now); ++w) {
      const auto rate = std::prev(rate_from.upper_bound(w))->second;
      const auto total = ratelimit::MaxRate::Parse(rate, nullptr)->Total(w);
      ASSERT_LE(fleet.Used("l", w), total) << "seed " << seed << ", window " << w - kFirst;
    }
  }
}

// Records lost and late, workers killed, stopped and started, the configuration learned at different times, partitions
// given to and taken from workers, also without their hearing of it: never more than the highest total that is known.
TEST(ControlNodeHistories, NeverAboveTheTotal) {
  for (std::uint64_t seed = 1; seed <= test::Histories(40u, 8u); ++seed) {
    ControlFleet fleet(2, seed);
    auto& random = fleet.random;
    const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
    fleet.topics = {static_cast<double>(random() % 3) * 0.1, milliseconds(1), milliseconds(1 + random() % 700)};
    const bool with_slots = one_in(3);
    const std::vector<std::string> rates{"1/s", "3/s", "20/s", "0.4/s", "7/s"};
    std::map<Label, ratelimit::MaxRate> highest;  // in force since
    const auto set_rate = [&] {
      fleet.SetRate("l", rates[random() % rates.size()], with_slots ? std::optional<std::uint32_t>(4) : std::nullopt);
      highest[ratelimit::LabelAt(fleet.now)] = std::max(highest[ratelimit::LabelAt(fleet.now)], fleet.rates["l"]);
    };
    set_rate();
    const auto add = [&] {
      const auto slot = static_cast<std::uint32_t>(fleet.workers.size());
      auto& worker =
          fleet.Add("w-" + std::to_string(slot), with_slots && slot < 4 ? std::optional(slot) : std::nullopt);
      worker.clock = milliseconds(random() % 180) - milliseconds(90);
    };
    for (std::size_t i = 0; i < 3; ++i) add();
    std::vector<std::size_t> untold;
    for (int step = 0; step < 3'000; ++step) {
      fleet.Step();
      const auto index = random() % fleet.workers.size();
      auto* worker = fleet.workers[index].get();
      if (worker == nullptr) continue;
      if (one_in(60)) worker->todo["l"] = one_in(2) ? 0 : static_cast<std::int64_t>(random() % 100);
      if (one_in(150) && !worker->frozen) fleet.Own(random() % 2, index, one_in(2));
      if (one_in(500)) worker->frozen = true;
      if (one_in(120)) worker->frozen = false;
      if (one_in(900) && fleet.workers.size() < 8) add();
      if (one_in(1500)) {
        fleet.Kill(index);
        continue;
      }
      if (one_in(1200)) {
        set_rate();
        for (std::size_t i = 0; i < fleet.workers.size(); ++i) untold.push_back(i);
      }
      if (!untold.empty() && one_in(20)) {
        if (auto& told = fleet.workers[untold.back()]) fleet.Tell(*told);
        untold.pop_back();
      }
    }
    for (const auto& [key, used] : fleet.used) {
      // Of the rates in force in the last 25 windows: some learn late, and a lease runs on for ten.
      const Label w = key.second;
      std::int64_t most = 0;
      for (auto at = highest.begin(); at != highest.end(); ++at) {
        const auto until = std::next(at);
        const bool counts = at->first <= w + 1 && (until == highest.end() || until->first >= w - 25);
        if (counts) most = std::max(most, at->second.Total(w));
      }
      ASSERT_LE(used, most) << "seed " << seed << " window " << w - kFirst;
    }
  }
}

}  // namespace
}  // namespace posthorn::fleet
