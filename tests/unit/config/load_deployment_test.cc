#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/unit/config/config_fixture.h"

namespace posthorn::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Paths(const std::vector<Fault>& faults) {
  std::vector<std::string> paths;
  for (const Fault& fault : faults) paths.push_back(fault.path);
  return paths;
}

Loaded<Deployment> LoadFrom(const std::string& subscriptions) {
  return LoadText("fleet: f\nkafka: { bootstrap.servers: h:1 }\nsubscriptions: " + subscriptions + "\n");
}

TEST(LoadDeploymentTest, WholeFile) {
  const auto loaded = LoadText(R"(
fleet: orders
instance: ${HOST}-2
kafka:
  bootstrap.servers: ${BROKERS:-localhost:9092}
  sasl.password: file:/run/secrets/kafka
  enable.idempotence: true
admin: 127.0.0.1:8080
subscriptions:
  file: subscriptions.yaml
shards: 2
memory: 128MiB
shutdown_timeout: 10s
shares: static
log: { level: warning, format: json }
own_readers: 7
commit_requests_per_second: 200
max_clock_offset: 50ms
)",
                               {}, FakeEnvironment({{"HOST", "box"}}, {{"/run/secrets/kafka", "pass\n"}}));
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const Deployment& d = *loaded.value;
  EXPECT_EQ(d.fleet, "orders");
  EXPECT_EQ(d.instance, "box-2");
  EXPECT_EQ(d.slot, 2u);
  EXPECT_EQ(d.membership, Membership::kStatic);
  EXPECT_EQ(d.kafka.at("bootstrap.servers"), "localhost:9092");
  EXPECT_EQ(d.kafka.at("sasl.password"), "pass");
  EXPECT_EQ(d.kafka.at("enable.idempotence"), "true");
  EXPECT_THAT(d.secret_kafka, ElementsAre("sasl.password"));
  EXPECT_EQ(d.admin, "127.0.0.1:8080");
  EXPECT_EQ(d.source.file, "subscriptions.yaml");
  EXPECT_EQ(d.source.kind, SourceKind::kFile);
  EXPECT_EQ(d.shards, 2u);
  EXPECT_EQ(d.memory, 128u << 20);
  EXPECT_EQ(d.shutdown_timeout, Milliseconds(10'000));
  EXPECT_EQ(d.log_level, "warning");
  EXPECT_TRUE(d.log_json);
  EXPECT_EQ(d.own_readers, 7u);
  EXPECT_EQ(d.commit_requests_per_second, 200u);
  EXPECT_EQ(d.max_clock_offset, Milliseconds(50));
}

TEST(LoadDeploymentTest, SlotIsTheTrailingNumber) {
  const auto slot = [](const std::string& instance) {
    return LoadText(kDeploymentText, {"instance=" + instance}).value->slot;
  };
  EXPECT_EQ(slot("orders-2"), 2u);
  EXPECT_EQ(slot("2"), 2u);
  EXPECT_EQ(slot("orders-010"), 10u);
  EXPECT_EQ(slot("orders"), std::nullopt);
  EXPECT_EQ(slot("orders-2a"), std::nullopt);
  EXPECT_EQ(slot("orders-99999999999"), std::nullopt);
}

TEST(LoadDeploymentTest, MembershipFollowsInstance) {
  EXPECT_EQ(LoadText(kDeploymentText).value->membership, Membership::kDynamic);
  EXPECT_EQ(LoadText(kDeploymentText, {"instance=a-1"}).value->membership, Membership::kStatic);
  EXPECT_EQ(LoadText(kDeploymentText, {"instance=a-1", "membership=dynamic"}).value->membership, Membership::kDynamic);
  const auto faults = LoadText(kDeploymentText, {"membership=static"}).faults;
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].rule, HasSubstr("needs an `instance`"));
}

TEST(LoadDeploymentTest, OverridesReplaceAndAdd) {
  const auto loaded =
      LoadText(kDeploymentText, {"kafka.bootstrap.servers=other:1", "kafka.client.id=me", "log.level=debug",
                                 "admin=127.0.0.1:0", "subscriptions.file=x=y.yaml", "admin="});
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  EXPECT_EQ(loaded.value->kafka.at("bootstrap.servers"), "other:1");
  EXPECT_EQ(loaded.value->kafka.at("client.id"), "me");
  EXPECT_EQ(loaded.value->log_level, "debug");
  EXPECT_EQ(loaded.value->source.file, "x=y.yaml");
  EXPECT_EQ(loaded.value->admin, "");
}

TEST(LoadDeploymentTest, TheControlTopicsMayBeElsewhere) {
  EXPECT_EQ(LoadText(kDeploymentText).value->shares, Shares::kAdaptive);
  EXPECT_THAT(LoadText(kDeploymentText).value->control_kafka, IsEmpty());
  const auto loaded =
      LoadText(kDeploymentText, {"control.kafka.bootstrap.servers=far:1", "control.kafka.sasl.password=p",
                                 "control.partitions=8", "control.replication=3"});
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  EXPECT_EQ(loaded.value->control_kafka.at("bootstrap.servers"), "far:1");
  EXPECT_THAT(loaded.value->secret_kafka, ElementsAre("sasl.password"));
  EXPECT_EQ(loaded.value->control_partitions, 8u);
  EXPECT_EQ(loaded.value->control_replication, 3u);
  EXPECT_THAT(Paths(LoadText(kDeploymentText, {"control.kafka.client.id=x"}).faults),
              ElementsAre("control.kafka.bootstrap.servers"));
}

TEST(LoadDeploymentTest, OverridesAloneMakeADeployment) {
  EXPECT_TRUE(LoadText("", {"fleet=f", "kafka.bootstrap.servers=h:1", "subscriptions.file=s"}));
}

TEST(LoadDeploymentTest, FaultsOfOverridesNameThem) {
  const auto faults = LoadText(kDeploymentText, {"shrads=2", "shards=none", "nonsense", "fleet.x=1"}).faults;
  ASSERT_THAT(faults, SizeIs(3)) << ToString(faults);
  for (const Fault& fault : faults) EXPECT_EQ(fault.file, "--set");
  EXPECT_THAT(ToString(faults), HasSubstr("did you mean `shards`?"));
}

TEST(LoadDeploymentTest, OnlyWordsOfTheTableOverride) {
  const auto faults = LoadText(kDeploymentText, {"log.colour=red"}).faults;
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].path, "log.colour");
  EXPECT_THAT(faults[0].hint, HasSubstr("level"));
}

TEST(LoadDeploymentTest, AllFaultsAtOnce) {
  const auto faults = LoadText(
                          "instance: ${NONE}\nkafka: { group.id: x }\nshards: 0\nmemory: 5\nunknown_thing: 1\n"
                          "shares: dynamic\nsubscriptions: { etcd: { url: 'http://x' } }\nlog: loud\n")
                          .faults;
  EXPECT_THAT(Paths(faults), ::testing::UnorderedElementsAre(
                                 "fleet", "instance", "kafka.group.id", "kafka.bootstrap.servers", "shards", "memory",
                                 "unknown_thing", "shares", "subscriptions.etcd.prefix", "log"));
}

TEST(LoadDeploymentTest, OneSourceIsNeeded) {
  EXPECT_THAT(Paths(LoadText("fleet: f\nkafka: { bootstrap.servers: h:1 }\n").faults), ElementsAre("subscriptions"));
  EXPECT_THAT(Paths(LoadFrom("{}").faults), ElementsAre("subscriptions"));
  EXPECT_THAT(Paths(LoadFrom("").faults), ElementsAre("subscriptions"));
  EXPECT_THAT(Paths(LoadFrom("{ cache: /c }").faults), ElementsAre("subscriptions"));
  EXPECT_THAT(Paths(LoadFrom("{ file: '' }").faults), ElementsAre("subscriptions.file"));
  EXPECT_THAT(Paths(LoadFrom("{ etcd: }").faults), ElementsAre("subscriptions.etcd"));
  EXPECT_THAT(Paths(LoadFrom("{ file: s.yaml, url: { url: 'http://x/' } }").faults), ElementsAre("subscriptions.url"));
  EXPECT_TRUE(LoadFrom("{ file: '', url: { url: 'http://x/' } }"));
}

TEST(LoadDeploymentTest, EverySource) {
  const auto dogma = LoadFrom(
      "{ central_dogma: { url: 'http://dogma:36462/', project: delivery, repository: cfg, path: '/subscriptions/**', "
      "token: file:/run/secrets/dogma }, cache: /var/lib/posthorn }");
  ASSERT_TRUE(dogma) << ToString(dogma.faults);
  EXPECT_EQ(dogma.value->source.kind, SourceKind::kCentralDogma);
  EXPECT_EQ(dogma.value->source.central_dogma.url, "http://dogma:36462");
  EXPECT_EQ(dogma.value->source.central_dogma.token, (Secret{"", "/run/secrets/dogma"}));
  EXPECT_EQ(dogma.value->source.cache, "/var/lib/posthorn");

  const auto topic = LoadFrom(
      "{ kafka_topic: { name: orders.subscriptions, kafka: { bootstrap.servers: 'h:2', "
      "sasl.password: hunter2 } } }");
  ASSERT_TRUE(topic) << ToString(topic.faults);
  EXPECT_EQ(topic.value->source.kind, SourceKind::kKafkaTopic);
  EXPECT_EQ(topic.value->source.kafka_topic.kafka.at("bootstrap.servers"), "h:2");
  EXPECT_THAT(topic.value->secret_kafka, ElementsAre("sasl.password"));
  EXPECT_THAT(Paths(LoadFrom("{ kafka_topic: { name: t, kafka: { client.id: x } } }").faults),
              ElementsAre("subscriptions.kafka_topic.kafka.bootstrap.servers"));

  const auto etcd = LoadFrom("{ etcd: { url: 'http://etcd:2379', prefix: /posthorn/, user: u, password: hunter2 } }");
  ASSERT_TRUE(etcd) << ToString(etcd.faults);
  EXPECT_EQ(etcd.value->source.kind, SourceKind::kEtcd);
  EXPECT_EQ(etcd.value->source.etcd.password.value, "hunter2");
  EXPECT_THAT(Paths(LoadFrom("{ etcd: { url: 'http://etcd:2379', prefix: /p/, user: u } }").faults),
              ElementsAre("subscriptions.etcd.user"));
  const auto shown = LoadFrom("{ etcd: { url: 'https://etcd:2379', prefix: /p/, certificate: /c.pem, key: /k.pem } }");
  ASSERT_TRUE(shown) << ToString(shown.faults);
  EXPECT_EQ(shown.value->source.etcd.certificate, "/c.pem");
  EXPECT_EQ(shown.value->source.etcd.key, "/k.pem");
  EXPECT_THAT(Paths(LoadFrom("{ etcd: { url: 'https://etcd:2379', prefix: /p/, key: /k.pem } }").faults),
              ElementsAre("subscriptions.etcd.key"));

  const auto url = LoadFrom("{ url: { url: 'https://c/orders.yaml', headers: { authorization: file:/s } } }");
  ASSERT_TRUE(url) << ToString(url.faults);
  EXPECT_EQ(url.value->source.kind, SourceKind::kUrl);
  EXPECT_EQ(url.value->source.url.every, Milliseconds(10'000));
  EXPECT_EQ(url.value->source.url.headers.at("authorization").file, "/s");

  const auto overridden = LoadText("fleet: f\nkafka: { bootstrap.servers: h:1 }\n",
                                   {"subscriptions.url.url=http://x/", "subscriptions.url.headers.x.y=hunter2"});
  ASSERT_TRUE(overridden) << ToString(overridden.faults);
  EXPECT_EQ(overridden.value->source.url.headers.at("x.y").value, "hunter2");
}

TEST(LoadDeploymentTest, ASecretIsReadWhenItIsUsed) {
  std::string why;
  const auto environment = FakeEnvironment({}, {{"/t", "hunter2\r\n"}, {"/empty", "\n"}, {"/two", "a\nb"}});
  EXPECT_EQ(ReadSecret({"plain", ""}, &why, environment), "plain");
  EXPECT_EQ(ReadSecret({"", "/t"}, &why, environment), "hunter2");
  EXPECT_EQ(ReadSecret({"", "/empty"}, &why, environment), std::nullopt);
  EXPECT_THAT(why, HasSubstr("/empty"));
  EXPECT_EQ(ReadSecret({"", "/two"}, &why, environment), std::nullopt);
  EXPECT_EQ(ReadSecret({"", "/none"}, &why, environment), std::nullopt);
  EXPECT_THAT(why, HasSubstr("/none: No such file"));
}

TEST(LoadDeploymentTest, SecretsNeverStandInFaults) {
  const auto loaded = LoadText(
      "fleet: f\nsubscriptions: { file: s }\nkafka:\n  bootstrap.servers: h:1\n  sasl.password: \"hun\\0ter2\"\n"
      "  ssl.key.password: ${NONE}hunter2\n  sasl.passwrod: [ hunter2 ]\npasword: hunter2\n");
  EXPECT_THAT(loaded.faults, SizeIs(4)) << ToString(loaded.faults);
  EXPECT_THAT(ToString(loaded.faults), ::testing::Not(HasSubstr("hunter2")));
}

TEST(LoadDeploymentTest, TwoDocumentsAreAFault) {
  EXPECT_THAT(LoadText(kDeploymentText + "---\nfleet: x\n").faults, SizeIs(1));
}

TEST(LoadDeploymentTest, MissingFileIsAFault) {
  const auto loaded = LoadDeployment("/nowhere/posthorn.yaml");
  ASSERT_THAT(loaded.faults, SizeIs(1));
  EXPECT_THAT(loaded.faults[0].rule, HasSubstr("cannot be read"));
  EXPECT_THAT(LoadDeployment("/").faults, SizeIs(1));
}

TEST(LoadDeploymentTest, FileIsToldFromSubscriptions) {
  EXPECT_TRUE(LooksLikeDeployment(kDeploymentText));
  EXPECT_TRUE(LooksLikeDeployment("fleet: x\nshrads: 1\n"));
  EXPECT_FALSE(LooksLikeDeployment(OneSubscription("")));
  EXPECT_FALSE(LooksLikeDeployment("subscriptions: []\nallow_empty: true\n"));
  EXPECT_FALSE(LooksLikeDeployment(""));
}

}  // namespace
}  // namespace posthorn::config
