#include "worker/kafka/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/kafka/abandoned.h"
#include "worker/kafka/client.h"

namespace posthorn::kafka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

config::Deployment Deployment(std::map<std::string, std::string> settings = {}) {
  config::Deployment deployment;
  deployment.fleet = "orders";
  deployment.instance = "orders-2";
  deployment.membership = config::Membership::kStatic;
  deployment.kafka = std::move(settings);
  deployment.kafka.emplace("bootstrap.servers", "127.0.0.1:1");
  return deployment;
}

std::string Value(const config::Deployment& deployment, Role role, const std::string& key, bool embedded = false) {
  std::string error;
  const auto conf = BuildConf(ClientConfig::From(deployment, embedded), role, error);
  if (conf == nullptr) return "fault: " + error;
  return ReadBack(conf.get(), key).value_or("unset");
}

TEST(ClientConfig, DefaultsAreAccepted) { EXPECT_THAT(ClientConfig::From(Deployment()).Faults(), IsEmpty()); }

TEST(ClientConfig, MemberNeverCommitsByItself) {
  EXPECT_EQ(Value(Deployment(), Role::kMember, "group.id"), "orders");
  EXPECT_EQ(Value(Deployment(), Role::kMember, "enable.auto.commit"), "false");
  EXPECT_EQ(Value(Deployment(), Role::kMember, "enable.auto.offset.store"), "false");
}

TEST(ClientConfig, StaticMembershipNeedsAnInstance) {
  EXPECT_EQ(Value(Deployment(), Role::kMember, "group.instance.id"), "orders-2");
  auto dynamic = Deployment();
  dynamic.membership = config::Membership::kDynamic;
  EXPECT_EQ(Value(dynamic, Role::kMember, "group.instance.id"), "unset");
  auto nameless = Deployment();
  nameless.instance.clear();
  EXPECT_EQ(Value(nameless, Role::kMember, "group.instance.id"), "unset");
}

TEST(ClientConfig, EmbeddedBrokerIsAskedMoreOftenAndHasNoStaticMembers) {
  EXPECT_EQ(Value(Deployment(), Role::kMember, "fetch.wait.max.ms", true), "10");
  EXPECT_EQ(Value(Deployment(), Role::kMember, "group.instance.id", true), "unset");
}

TEST(ClientConfig, UsersSettingsWin) {
  const auto deployment = Deployment({{"session.timeout.ms", "9000"}, {"linger.ms", "50"}, {"client.id", "mine"}});
  EXPECT_EQ(Value(deployment, Role::kMember, "session.timeout.ms"), "9000");
  EXPECT_EQ(Value(deployment, Role::kProducer, "linger.ms"), "50");
  EXPECT_EQ(Value(deployment, Role::kAdmin, "client.id"), "mine");
  EXPECT_EQ(ClientConfig::From(deployment).session_timeout(), std::chrono::milliseconds(9000));
  EXPECT_THAT(ClientConfig::From(deployment).Faults(), IsEmpty());
}

TEST(ClientConfig, WhatIsSetForMessagesDoesNotSlowLeases) {
  const auto tuned = Deployment({{"fetch.min.bytes", "100000"},
                                 {"fetch.wait.max.ms", "5000"},
                                 {"fetch.error.backoff.ms", "2000"},
                                 {"client.rack", "a"},
                                 {"linger.ms", "50"},
                                 {"message.max.bytes", "10000"},
                                 {"session.timeout.ms", "4000"},
                                 {"max.poll.interval.ms", "5000"}});
  EXPECT_THAT(ClientConfig::From(tuned).Faults(), IsEmpty());
  for (const Role role : {Role::kControlMember, Role::kControlReader}) {
    EXPECT_EQ(Value(tuned, role, "fetch.min.bytes"), "1") << ToString(role);
    EXPECT_EQ(Value(tuned, role, "fetch.wait.max.ms"), "100") << ToString(role);
    EXPECT_EQ(Value(tuned, role, "fetch.error.backoff.ms"), "100") << ToString(role);
    EXPECT_EQ(Value(tuned, role, "client.rack"), Value(Deployment(), role, "client.rack")) << ToString(role);
  }
  EXPECT_EQ(Value(tuned, Role::kControlMember, "session.timeout.ms"), "6000");
  EXPECT_EQ(Value(tuned, Role::kControlProducer, "linger.ms"), "0");
  EXPECT_EQ(Value(tuned, Role::kControlProducer, "message.max.bytes"), std::to_string(kControlRecordBytes));
  EXPECT_EQ(Value(tuned, Role::kMember, "fetch.min.bytes"), "100000");
  EXPECT_EQ(Value(tuned, Role::kMember, "client.rack"), "a");
}

TEST(ClientConfig, ProducerIsIdempotentAndWaitsForAllReplicas) {
  EXPECT_EQ(Value(Deployment(), Role::kProducer, "enable.idempotence"), "true");
  const auto faults = ClientConfig::From(Deployment({{"acks", "1"}})).Faults();
  EXPECT_THAT(faults, ElementsAre(HasSubstr("kafka.acks: 1 cannot be used")));
}

TEST(ClientConfig, MemoryBoundsTheQueues) {
  auto small = Deployment();
  small.memory = 16 << 20;
  EXPECT_EQ(Value(small, Role::kMember, "queued.max.messages.kbytes"), "1024");
  auto large = Deployment();
  large.memory = 1ull << 30;
  EXPECT_EQ(Value(large, Role::kMember, "queued.max.messages.kbytes"), "16384");
}

TEST(ClientConfig, EveryFaultIsToldAndNamed) {
  const auto faults = ClientConfig::From(Deployment({{"no.such.thing", "1"},
                                                     {"socket.timeout.ms", "soon"},
                                                     {"group.id", "other"},
                                                     {"enable.auto.commit", "true"}}))
                          .Faults();
  ASSERT_EQ(faults.size(), 4U);
  EXPECT_THAT(faults, testing::UnorderedElementsAre(HasSubstr("kafka.group.id"), HasSubstr("kafka.enable.auto.commit"),
                                                    HasSubstr("kafka.no.such.thing: no such librdkafka setting"),
                                                    HasSubstr("kafka.socket.timeout.ms: soon is refused")));
}

TEST(ClientConfig, ServersAreNeeded) {
  auto deployment = Deployment();
  deployment.kafka.clear();
  EXPECT_THAT(ClientConfig::From(deployment).Faults(), ElementsAre(HasSubstr("kafka.bootstrap.servers")));
}

TEST(ClientConfig, SettingsThatContradictEachOtherAreFaults) {
  EXPECT_THAT(ClientConfig::From(Deployment({{"session.timeout.ms", "1000"}})).Faults(),
              ElementsAre(HasSubstr("heartbeat.interval.ms")));
  EXPECT_THAT(ClientConfig::From(Deployment({{"max.poll.interval.ms", "1000"}})).Faults(),
              ElementsAre(HasSubstr("max.poll.interval.ms")));
}

TEST(ClientConfig, SecretsAreMasked) {
  const auto config = ClientConfig::From(Deployment({{"sasl.password", "hunter2"}, {"sasl.mechanisms", "PLAIN"}}));
  EXPECT_EQ(config.MaskedSettings().at("sasl.password"), "********");
  EXPECT_EQ(config.MaskedSettings().at("sasl.mechanisms"), "PLAIN");
  const auto broken = ClientConfig::From(Deployment({{"ssl.key.pem", "-----BEGIN hunter2"}}));
  for (const auto& fault : broken.Faults()) EXPECT_THAT(fault, Not(HasSubstr("hunter2")));
}

TEST(ClientConfig, ManySettingsOfOneRoleDoNotDisturbTheOthers) {
  const auto deployment = Deployment({{"fetch.max.bytes", "2000000000"}, {"compression.type", "zstd"}});
  std::string error;
  EXPECT_NE(NewClient(ClientConfig::From(deployment), Role::kMember, error), nullptr) << error;
  EXPECT_NE(NewClient(ClientConfig::From(deployment), Role::kProducer, error), nullptr) << error;
}

TEST(DestroyWithinTest, AClientThatCanBeDestroyedIs) {
  std::string error;
  auto client = NewClient(ClientConfig::From(Deployment()), Role::kDocuments, error);
  ASSERT_NE(client, nullptr) << error;
  EXPECT_TRUE(DestroyWithin(std::chrono::seconds(30), std::move(client), "a client"));
  EXPECT_FALSE(ClientsAbandoned());
}

}  // namespace
}  // namespace posthorn::kafka
