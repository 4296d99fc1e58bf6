#include "worker/fleet/demand.h"

#include <gtest/gtest.h>

#include <memory>

namespace posthorn::fleet {
namespace {

using delivery::EndpointHealth;
using delivery::SubscriptionShared;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ratelimit::Label kNow = 1'793'000'000;

struct DemandTest : ::testing::Test {
  runtime::Now now{ratelimit::StartOf(kNow) + milliseconds(500), runtime::SteadyTime(seconds(1000))};
  std::vector<delivery::Dispatcher::SubscriptionView> views;

  SubscriptionShared& Add(const std::string& name, const std::string& limit, bool paused = false,
                          config::Ordering ordering = config::Ordering::kNone) {
    auto config = std::make_shared<config::Subscription>();
    config->name = name;
    config->limit = limit;
    config->paused = paused;
    config->ordering = ordering;
    auto shared = std::make_shared<SubscriptionShared>(name, config->max_in_flight, 2);
    views.push_back({config, shared, {}, {}});
    return *shared;
  }
  void Unread(std::int64_t messages) {
    auto& lane = views.back().lanes.emplace_back();
    lane.taken = 100;
    lane.log_end = 100 + messages;
  }
  static void Started(SubscriptionShared& shared, ratelimit::Label label, int attempts) {
    for (int i = 0; i < attempts; ++i) shared.per_shard[0]->attempts_by_label.Add(label);
  }
  Demand Of(const std::string& limit) { return DemandOf(views, now)[limit]; }
};

TEST_F(DemandTest, WhatIsReadyAndWhatIsUnread) {
  auto& shared = Add("a", "l");
  shared.per_shard[0]->waiting_for_permit.Set(3);
  shared.per_shard[1]->waiting_for_permit.Set(4);
  Unread(50);
  Unread(0);
  EXPECT_EQ(Of("l"), (Demand{57, 7}));
  Add("b", "l").per_shard[0]->waiting_for_permit.Set(1);
  EXPECT_EQ(Of("l"), (Demand{58, 8}));
}

TEST_F(DemandTest, AnUnknownLogEndIsNoBacklog) {
  Add("a", "l");
  views.back().lanes.emplace_back().taken = 1000;  // the end is -1
  EXPECT_EQ(Of("l"), Demand{});
}

TEST_F(DemandTest, ASteadyFlowIsExpectedToGoOn) {
  auto& shared = Add("a", "l");
  Started(shared, kNow - 1, 30);
  EXPECT_EQ(Of("l"), (Demand{30, 0}));
  Started(shared, kNow, 40);  // in half a window
  EXPECT_EQ(Of("l"), (Demand{80, 0}));
}

TEST_F(DemandTest, APausedOneAsksForNothing) {
  Add("a", "l", /*paused=*/true).per_shard[0]->waiting_for_permit.Set(9);
  Unread(1000);
  EXPECT_EQ(Of("l"), Demand{});
}

TEST_F(DemandTest, ASlowedEndpointAsksForItsCeiling) {
  auto& shared = Add("a", "l");
  Unread(1000);
  for (const auto back : {milliseconds(600), milliseconds(0)}) {
    (void)shared.health.OnBad(EndpointHealth::Answer::kOverloaded, now.steady - back, {}, {100, 100}, milliseconds(0));
  }
  const auto view = shared.health.Show(now.steady);
  ASSERT_EQ(view.state, EndpointHealth::State::kSlowed);
  EXPECT_GE(Of("l").next_window, 1);
  EXPECT_LE(Of("l").next_window, static_cast<std::int64_t>(view.ceiling) + 1);
}

TEST_F(DemandTest, AnEndpointThatAskedToWaitAsksForNothing) {
  auto& shared = Add("a", "l");
  Unread(1000);
  (void)shared.health.OnBad(EndpointHealth::Answer::kOverloaded, now.steady, {}, {100, 100}, seconds(30));
  EXPECT_EQ(Of("l"), Demand{});
}

TEST_F(DemandTest, ADeadEndpointAsksForItsProbeAtMost) {
  auto& shared = Add("a", "l");
  Unread(1000);
  for (int i = 0; i < 40; ++i) {
    (void)shared.health.OnBad(EndpointHealth::Answer::kFailed, now.steady - milliseconds(4000 - 100 * i), {},
                              {100, 100}, milliseconds(0));
  }
  ASSERT_EQ(shared.health.Show(now.steady).state, EndpointHealth::State::kProbing);
  EXPECT_LE(Of("l").next_window, 1);
}

TEST_F(DemandTest, WhoHasAllRequestsUnderWayAsksForWhatItGetsDone) {
  auto& shared = Add("a", "l");
  Unread(100'000);
  Started(shared, kNow - 1, 16);
  for (std::uint32_t i = 0; i < views.back().config->max_in_flight; ++i) {
    ASSERT_TRUE(shared.slots.TakeOrWait(0, i, false));
  }
  EXPECT_EQ(Of("l").next_window, 19);
}

TEST_F(DemandTest, OneThatDeliversInTurnAsksForWhatItGetsDone) {
  auto& shared = Add("a", "l", /*paused=*/false, config::Ordering::kPartition);
  Unread(100'000);
  Started(shared, kNow - 1, 16);
  EXPECT_EQ(Of("l").next_window, 19) << "its requests are under way, or wait for their time";
  shared.per_shard[0]->waiting_for_permit.Set(1);
  EXPECT_EQ(Of("l").next_window, 100'017) << "it waits for permits";
}

}  // namespace
}  // namespace posthorn::fleet
