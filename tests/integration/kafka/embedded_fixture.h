#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/embedded_broker.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {

/// One embedded broker with the topic `orders` of two partitions.
class EmbeddedTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    broker_ = EmbeddedBroker::Create(error);
    ASSERT_NE(broker_, nullptr) << error;
    ASSERT_TRUE(broker_->CreateTopic("orders", 2, error)) << error;
  }
  ClientConfig Config(const std::string& fleet = "fleet") {
    auto deployment = TestDeployment(broker_->bootstrap(), fleet);
    // The embedded coordinator waits for a session's length at each rebalance.
    deployment.kafka["session.timeout.ms"] = "4000";
    deployment.kafka["heartbeat.interval.ms"] = "300";
    deployment.kafka["max.poll.interval.ms"] = "10000";
    return ClientConfig::From(deployment, true);
  }
  void Produce(const std::string& topic, std::int32_t partition, int from, int to) {
    std::string error;
    const auto producer = Producer::Create(Config(), error);
    ASSERT_NE(producer, nullptr) << error;
    for (int i = from; i < to; ++i) {
      const std::string value = "v" + std::to_string(i);
      OutgoingRecord record;
      record.topic = topic;
      record.partition = partition;
      record.value = value;
      ASSERT_TRUE(producer->Send(record)) << producer->last_error();
    }
    ASSERT_TRUE(producer->Flush(std::chrono::seconds(10))) << producer->last_error();
  }
  std::unique_ptr<EmbeddedBroker> broker_;
};

}  // namespace posthorn::kafka
