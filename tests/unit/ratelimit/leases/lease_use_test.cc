// The permits of a fleet are used by whoever has something to do.

#include <gtest/gtest.h>

#include "calm_fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::CalmFleet;
using testing::kFirst;
using testing::TermsOf;

constexpr std::int64_t kEndless = 1'000'000'000;

TEST(LeaseUse, DemandThatMovesToAnotherWorkerIsServedInFullFromTheSecondWindowOn) {
  CalmFleet fleet(10, TermsOf("1000/s"));
  fleet.worker(0).backlog = kEndless;
  fleet.Windows(6);
  fleet.worker(0).backlog = 0;
  fleet.worker(9).backlog = kEndless;
  fleet.Windows(8);
  EXPECT_EQ(fleet.Above(), std::nullopt);
  for (Label w = kFirst + 8; w < kFirst + 14; ++w) EXPECT_GE(fleet.worker(9).spent[w], 991);  // the idle keep one each
}

TEST(LeaseUse, ThreeOfManyWorkersUseASmallTotalInEveryWindow) {
  CalmFleet fleet(96, TermsOf("10/s"));
  for (const std::size_t i : {5U, 40U, 77U}) fleet.worker(i).backlog = kEndless;
  fleet.Windows(20);
  EXPECT_EQ(fleet.Above(), std::nullopt);
  for (Label w = kFirst + 2; w < kFirst + 20; ++w) EXPECT_EQ(fleet.Spent(w), 10) << w - kFirst;
}

TEST(LeaseUse, AFloodIsServedAtTheTotalFromItsFirstWindowWithoutOscillation) {
  CalmFleet fleet(8, TermsOf("1000/s"));
  for (std::size_t i = 0; i < 8; ++i) fleet.worker(i).arrivals = 100;
  fleet.Windows(6);
  for (std::size_t i = 0; i < 8; ++i) fleet.worker(i).arrivals = 2'500;
  fleet.Windows(10);
  for (Label w = kFirst + 6; w < kFirst + 16; ++w) EXPECT_EQ(fleet.Spent(w), 1000) << w - kFirst;
}

TEST(LeaseUse, WithoutACoordinatorTheSharesGoOnUntilTheLeasesEnd) {
  CalmFleet fleet(4, TermsOf("100/s"), 8);
  for (std::size_t i = 0; i < 4; ++i) fleet.worker(i).backlog = kEndless;
  fleet.Windows(6);
  fleet.KillCoordinator(0);
  fleet.Windows(12);
  EXPECT_EQ(fleet.Spent(kFirst + 6), 100);
  for (Label w = kFirst + 6; w < kFirst + 13; ++w)
    EXPECT_GE(fleet.Spent(w), 95) << w - kFirst;  // the reserve lies idle
  EXPECT_EQ(fleet.Spent(kFirst + 14), 0);
}

TEST(LeaseUse, WhatACrashedWorkerHeldIsUsedAgainWhenItsLeaseIsOver) {
  CalmFleet fleet(3, TermsOf("30/s"), 10);
  for (std::size_t i = 0; i < 3; ++i) fleet.worker(i).backlog = kEndless;
  fleet.Windows(6);
  fleet.Kill(0);
  fleet.Windows(20);
  for (Label w = kFirst + 6; w < kFirst + 18; ++w) EXPECT_GE(fleet.Spent(w), 19) << w - kFirst;
  for (Label w = kFirst + 18; w < kFirst + 26; ++w) EXPECT_EQ(fleet.Spent(w), 30) << w - kFirst;
  EXPECT_EQ(fleet.Above(), std::nullopt);
}

}  // namespace
}  // namespace posthorn::ratelimit
