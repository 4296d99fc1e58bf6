#include "config/effective.h"

#include <gmock/gmock.h>

#include "config/option_table.h"
#include "tests/unit/config/config_fixture.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAll = R"(
instances: 3
limits: { acme: { max_rate: 800/s }, unused: { max_rate: 0.5/s } }
subscriptions:
  - name: billing
    topic: orders
    endpoint: https://billing.example/hooks%20x
    max_rate: 30/min
    burst: window
    paused: true
    max_attempts: 20
    backoff: { initial: 1500ms, multiplier: 1.5, jitter: none }
    headers: { x-tenant: "a: b # \"c\" \\ ${V} $${literal}", n: "5", t: "true" }
    forward_headers: [ trace-*, x-request-id ]
    tls: { ca: "/ca with blank.pem" }
  - { name: a, topic: t, endpoint: 'http://[::1]:80/', limit: acme }
  - { name: b, topic: t, endpoint: 'http://x/', limit: acme }
  - { name: c, topic: '123', endpoint: 'http://x/' }
)";

TEST(EffectiveTest, SnapshotReadsBackAsTheSame) {
  auto loaded = LoadOne(kAll, {}, FakeEnvironment({{"V", "w"}}));
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  Snapshot snapshot = *loaded.value;
  for (Subscription& s : snapshot.subscriptions) s.secret_headers.clear();
  const auto again = LoadOne(EffectiveYaml(snapshot));
  ASSERT_TRUE(again) << ToString(again.faults) << EffectiveYaml(snapshot);
  EXPECT_EQ(again.value->subscriptions, snapshot.subscriptions);
  EXPECT_EQ(again.value->limits, snapshot.limits);
  EXPECT_EQ(again.value->instances, snapshot.instances);
}

TEST(EffectiveTest, EmptySnapshotReadsBack) {
  EXPECT_TRUE(LoadOne(EffectiveYaml(*LoadOne("allow_empty: true\n").value)));
}

TEST(EffectiveTest, DeploymentReadsBackAsTheSame) {
  const auto loaded =
      LoadText(kDeploymentText, {"instance=o-3", "kafka.linger.ms=5", "log.format=json", "memory=1536KiB"});
  ASSERT_TRUE(loaded);
  const std::string yaml = EffectiveYaml(*loaded.value);
  const auto again = LoadText(yaml);
  ASSERT_TRUE(again) << ToString(again.faults) << yaml;
  EXPECT_EQ(again.value, loaded.value);
  EXPECT_THAT(yaml, HasSubstr("# slot: 3\n"));
}

TEST(EffectiveTest, OneSourceReadsBackAsTheSame) {
  for (const char* source :
       {"{ central_dogma: { url: 'http://d', project: p, repository: r, path: '/**', token: file:/t }, cache: /c }",
        "{ kafka_topic: { name: t } }", "{ etcd: { url: 'http://e', prefix: /p/, user: u, password: file:/p } }",
        "{ etcd: { url: 'https://e', prefix: /p/, certificate: /c.pem, key: /k.pem } }",
        "{ url: { url: 'http://u/x.yaml', headers: { authorization: file:/h } } }"}) {
    const auto loaded =
        LoadText(std::string("fleet: f\nkafka: { bootstrap.servers: h:1 }\nsubscriptions: ") + source + "\n");
    ASSERT_TRUE(loaded) << ToString(loaded.faults);
    const std::string yaml = EffectiveYaml(*loaded.value);
    const auto again = LoadText(yaml);
    ASSERT_TRUE(again) << ToString(again.faults) << yaml;
    EXPECT_EQ(again.value, loaded.value) << yaml;
  }
  const auto hidden = LoadText(
      "fleet: f\nkafka: { bootstrap.servers: h:1 }\n"
      "subscriptions: { url: { url: 'http://u/?t=hunter2', headers: { a: hunter2 } } }\n");
  EXPECT_THAT(EffectiveYaml(*hidden.value), Not(HasSubstr("hunter2")));
}

TEST(EffectiveTest, NamesEveryOption) {
  const std::string deployment = EffectiveYaml(*LoadText(kDeploymentText).value);
  const std::string subscriptions = EffectiveYaml(*LoadOne(kAll, {}, FakeEnvironment({{"V", "w"}})).value);
  for (const Document document : {Document::kDeployment, Document::kSubscriptions}) {
    for (const Option& option : Options(document)) {
      if (!option.unavailable.empty() || option.path == "defaults" || option.path == "allow_empty") continue;
      const std::string key(option.path.substr(option.path.rfind('.') + 1));
      EXPECT_THAT(document == Document::kDeployment ? deployment : subscriptions, HasSubstr(key + ":")) << option.path;
    }
  }
  EXPECT_THAT(deployment, HasSubstr("memory: 256MiB\n"));
  EXPECT_THAT(deployment, HasSubstr("# shards: unset\n"));
  EXPECT_THAT(subscriptions, HasSubstr("timeout: 5s\n"));
}

TEST(EffectiveTest, SecretsAreMasked) {
  const auto environment = FakeEnvironment({{"SECRET", "hunter2"}, {"BROKERS", "b:1"}}, {{"/s", "hunter2\n"}});
  const auto loaded =
      LoadOne(OneSubscription(
                  "    headers: { Authorization: hunter2, Cookie: hunter2, x-api-key: hunter2, my-token-x: hunter2, "
                  "client-secret: hunter2, a: file:/s, b: 'x ${SECRET}', plain: shown }\n"),
              {}, environment);
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const std::string yaml = EffectiveYaml(*loaded.value);
  EXPECT_THAT(yaml, Not(HasSubstr("hunter2")));
  EXPECT_THAT(yaml, HasSubstr("plain: shown"));
  EXPECT_THAT(yaml, HasSubstr("Authorization: \"***\""));

  const auto deployment = LoadText(
      "fleet: f\nsubscriptions: { file: s }\nkafka: { bootstrap.servers: '${BROKERS}', sasl.password: hunter2, "
      "ssl.key.pem: hunter2, sasl.username: '${SECRET}', sasl.oauthbearer.config: hunter2, a.b: file:/s }\n",
      {}, environment);
  ASSERT_TRUE(deployment) << ToString(deployment.faults);
  const std::string shown = EffectiveYaml(*deployment.value);
  EXPECT_THAT(shown, Not(HasSubstr("hunter2")));
  EXPECT_THAT(shown, HasSubstr("b:1"));
}

TEST(EffectiveTest, TheQueryOfAnEndpointIsMasked) {
  const auto loaded = LoadOne(
      "subscriptions:\n  - { name: a, topic: t, max_rate: 5/s, endpoint: 'http://x/in?token=hunter2' }\n"
      "  - { name: b, topic: t, max_rate: 5/s, endpoint: 'http://x/plain' }\n");
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const std::string yaml = EffectiveYaml(*loaded.value);
  EXPECT_THAT(yaml, Not(HasSubstr("hunter2")));
  EXPECT_THAT(yaml, HasSubstr("http://x/in?***"));
  EXPECT_THAT(yaml, HasSubstr("http://x/plain"));
}

TEST(EffectiveTest, NamesThatLookSecret) {
  for (const char* name :
       {"authorization", "Proxy-Authorization", "COOKIE", "x-token", "ssl.key.password", "a-secret-b"}) {
    EXPECT_TRUE(LooksSecret(name)) << name;
  }
  for (const char* name : {"x-tenant", "accept", "bootstrap.servers"}) EXPECT_FALSE(LooksSecret(name)) << name;
}

}  // namespace
}  // namespace posthorn::config
