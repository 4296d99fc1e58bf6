// The control channel against librdkafka's embedded broker, which finds no record by its time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/integration/kafka/embedded_fixture.h"
#include "tests/integration/kafka/recording_control.h"

namespace posthorn::kafka {
namespace {

using testing::ElementsAre;

class EmbeddedControlTest : public EmbeddedTest {
 protected:
  void SetUp() override {
    EmbeddedTest::SetUp();
    std::string error;
    ASSERT_TRUE(broker_->CreateTopic("fleet.demand", 2, error)) << error;
    ASSERT_TRUE(broker_->CreateTopic("fleet.grants", 2, error)) << error;
  }
};

TEST_F(EmbeddedControlTest, AWrongClockOfTheBrokerHidesNoGrant) {
  // Nothing is as new as it should be by the broker's word: the newest thousand are read whatever their times.
  Produce("fleet.grants", 0, 0, 1500);
  Produce("fleet.grants", 1, 0, 3);
  RecordingControl worker(Config(), 2);
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.ended.size() == 2; }));
  const auto log = worker.told().log;
  ASSERT_EQ(log.at(0).size(), 1000u);
  EXPECT_EQ(log.at(0).front(), "v500");
  EXPECT_EQ(log.at(0).back(), "v1499");
  EXPECT_THAT(log.at(1), ElementsAre("v0", "v1", "v2"));
  worker.channel().Append(1, "v3");
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.log.at(1).size() == 4; }));
}

TEST_F(EmbeddedControlTest, ReportsReachWhoeverOwnsThePartition) {
  RecordingControl worker(Config(), 2);
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.owned.size() == 2; }));
  worker.channel().Report(0, "a");
  worker.channel().Report(1, "b");
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.reports.size() == 2; }));
  EXPECT_THAT(worker.told().reports.at(0), ElementsAre("a"));
  EXPECT_THAT(worker.told().reports.at(1), ElementsAre("b"));
  EXPECT_EQ(worker.channel().stats().written, 2u);
  worker.channel().SetCandidate(false);
  ASSERT_TRUE(worker.WaitFor([](const auto& told) { return told.owned.empty(); }));
}

}  // namespace
}  // namespace posthorn::kafka
