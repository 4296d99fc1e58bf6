#include "worker/admin/permit_meter.h"

#include <gtest/gtest.h>

#include "tests/unit/admin/shown_worker.h"

namespace posthorn::admin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PermitMeter, AddsUpTheWindows) {
  test::ShownWorker worker;
  worker.AddLimit("acme", "10/s");
  PermitMeter meter;
  std::uint64_t taken = 0;
  for (int second = 0; second < 5; ++second) {
    worker.Take(0, second + 1);
    taken += static_cast<std::uint64_t>(second) + 1;
    meter.Update(worker.limits, worker.wall());
    EXPECT_EQ(meter.Total("acme"), taken);
    worker.world.clock.Advance(seconds(1));
  }
}

TEST(PermitMeter, CountsWhatAWindowGotAfterItWasReadLast) {
  test::ShownWorker worker;
  worker.AddLimit("acme", "10/s");
  PermitMeter meter;
  worker.Take(0, 2);
  meter.Update(worker.limits, worker.wall());
  worker.world.clock.Advance(milliseconds(500));
  worker.Take(0, 3);
  worker.world.clock.Advance(milliseconds(700));
  worker.Take(0, 4);
  meter.Update(worker.limits, worker.wall());
  EXPECT_EQ(meter.Total("acme"), 9U);
  meter.Update(worker.limits, worker.wall());
  EXPECT_EQ(meter.Total("acme"), 9U);
}

TEST(PermitMeter, NeverGoesBackWhenALimitIsMadeAnew) {
  test::ShownWorker worker;
  worker.AddLimit("acme", "10/s");
  PermitMeter meter;
  worker.Take(0, 5);
  meter.Update(worker.limits, worker.wall());
  worker.limits.clear();
  worker.AddLimit("acme", "10/s");
  worker.Take(0, 1);
  meter.Update(worker.limits, worker.wall());
  EXPECT_EQ(meter.Total("acme"), 6U);
}

TEST(PermitMeter, ForgetsALimitThatIsGone) {
  test::ShownWorker worker;
  worker.AddLimit("acme", "10/s");
  PermitMeter meter;
  worker.Take(0, 5);
  meter.Update(worker.limits, worker.wall());
  meter.Update({}, worker.wall());
  EXPECT_EQ(meter.Total("acme"), 0U);
}

}  // namespace
}  // namespace posthorn::admin
