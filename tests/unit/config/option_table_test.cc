#include "config/option_table.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "config/effective.h"
#include "config/fields.h"
#include "config/reader.h"
#include "config/schema.h"
#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/json_schema.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array<Document, 2> kDocuments{Document::kDeployment, Document::kSubscriptions};

struct Cases {
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

// For every option of the table that takes a value; a value is written behind `key: `.
const std::map<std::string, Cases> kDeploymentCases{
    {"fleet", {{"orders", "a.b_C-1"}, {"\"\"", "a b", "a/b", ".", "..", "{ }", "[a]", "~", std::string(101, 'x')}}},
    {"instance", {{"orders-2", "2", "\"\""}, {"a b", "ü", "{ }", "~", std::string(250, 'x')}}},
    {"membership", {{"dynamic"}, {"Static", "none", "1", "static"}}},  // static: there is no instance
    {"kafka",
     {{"{ bootstrap.servers: h:1, enable.idempotence: true, linger.ms: 5, client.id: '' }"},
      {"{ }", "[ a ]", "text", "~", "{ bootstrap.servers: h:1, group.id: x }",
       "{ bootstrap.servers: h:1, enable.auto.commit: true }", "{ bootstrap.servers: h:1, Group: x }",
       "{ bootstrap.servers: h:1, sasl: { password: x } }", "{ bootstrap.servers: ~ }",
       "{ bootstrap.servers: h:1, a: file:/none }", "{ bootstrap.servers: h:1, a: file:none }"}}},
    {"admin",
     {{"127.0.0.1:8080", "localhost:0", "\"[::1]:8080\"", "\"\""},
      {"8080", "localhost", "\":8080\"", "localhost:65536", "localhost:x", "'::1:8080'", "'a b:1'", "'[]:1'"}}},
    {"subscriptions.file", {{"subscriptions.yaml", "/etc/posthorn", "file:/etc/x.yaml"}, {"\"\"", "~", "[ a ]"}}},
    {"subscriptions.central_dogma.url",
     {{"http://dogma:36462", "https://d/"}, {"\"\"", "dogma:1", "http://d/api", "http://u:p@d", "~"}}},
    {"subscriptions.central_dogma.project", {{"delivery", "a_b.c-1"}, {"\"\"", "a/b", "..", "a b", "~"}}},
    {"subscriptions.central_dogma.repository", {{"cfg"}, {"\"\"", "a/b", ".", "a?b"}}},
    {"subscriptions.central_dogma.path",
     {{"/subscriptions/**", "/a.yaml", "'/a.yaml,/b/*.json'"}, {"\"\"", "a.yaml", "'/a?b'", "'/a b'"}}},
    {"subscriptions.central_dogma.token",
     {{"appToken-x", "file:/none", "\"\""}, {"file:x", "[ a ]", "\"a\\nb\"", "~"}}},
    {"subscriptions.central_dogma.ca", {{"/ca.pem", "file:/ca.pem"}, {"~", "[ a ]"}}},
    {"subscriptions.kafka_topic.name", {{"orders.subscriptions"}, {"\"\"", "a b", "..", "~"}}},
    {"subscriptions.kafka_topic.kafka",
     {{"{ bootstrap.servers: h:1 }", "{ }", "~"}, {"[ a ]", "text", "{ client.id: x }", "{ bootstrap.servers: ~ }"}}},
    {"subscriptions.etcd.url", {{"http://etcd:2379"}, {"\"\"", "etcd:2379", "http://etcd/v3", "~"}}},
    {"subscriptions.etcd.prefix", {{"/posthorn/orders/", "p"}, {"\"\"", "[ a ]", "~"}}},
    {"subscriptions.etcd.user", {{"\"\""}, {"posthorn", "[ a ]", "~"}}},          // without password
    {"subscriptions.etcd.password", {{"\"\""}, {"hunter2", "file:x", "[ a ]"}}},  // without user
    {"subscriptions.etcd.ca", {{"/ca.pem"}, {"~"}}},
    {"subscriptions.etcd.certificate", {{"\"\""}, {"/etc/c.pem", "~"}}},  // without key
    {"subscriptions.etcd.key", {{"\"\""}, {"/etc/k.pem", "~"}}},          // without certificate
    {"subscriptions.url.url",
     {{"https://c.example/orders.yaml?a=b"}, {"\"\"", "c.example", "ftp://x/", "http://u@x/"}}},
    {"subscriptions.url.every", {{"100ms", "10s", "1h"}, {"99ms", "2h", "10", "~"}}},
    {"subscriptions.url.headers",
     {{"{ authorization: file:/none, accept: text/yaml }", "{ }", "~"},
      {"[ a ]", "{ host: x }", "{ If-None-Match: x }", "{ a: x, A: y }", "{ a: file:x }", "{ a: \"x\\ny\" }",
       "{ a: [ x ] }"}}},
    {"subscriptions.url.ca", {{"/ca.pem"}, {"~"}}},
    {"subscriptions.cache", {{"/var/lib/posthorn", "cache", "\"\""}, {"~", "[ a ]"}}},
    {"shards", {{"1", "64"}, {"0", "65", "two", "\"2\"", "1.5", "~"}}},
    {"memory", {{"1MiB", "2GiB"}, {"512KiB", "2048GiB", "1048576", "1MB", "-1MiB"}}},
    {"shutdown_timeout", {{"0ms", "30s", "1h"}, {"30", "61min", "-1s"}}},
    {"shares", {{"static", "adaptive"}, {"dynamic", "Static"}}},
    {"control.kafka",
     {{"{ bootstrap.servers: h:1, client.id: '' }", "{ }"},
      {"[ a ]", "text", "{ bootstrap.servers: h:1, group.id: x }", "{ client.id: x }"}}},
    {"control.partitions", {{"1", "4", "1000"}, {"0", "1001", "~"}}},
    {"control.replication", {{"1", "3", "100"}, {"0", "101", "-1"}}},
    {"log.level", {{"debug", "info", "warning", "error"}, {"Info", "trace", "3"}}},
    {"log.format", {{"text", "json"}, {"xml"}}},
    {"own_readers", {{"0", "4", "32"}, {"33", "-1", "many"}}},
    {"commit_requests_per_second", {{"1", "150", "100000"}, {"0", "100001", "10/s", "-1"}}},
    {"max_clock_offset", {{"0ms", "100ms", "10s"}, {"100", "11s"}}},
    {"max_unfinished", {{"10", "10000", "1000000"}, {"9", "1000001", "-1", "~"}}},
    {"retry_topic.partitions", {{"1", "3", "1000"}, {"0", "1001", "~"}}},
    {"retry_topic.replication", {{"1", "3", "100"}, {"0", "101", "-1"}}},
    {"retry_topic.retention", {{"1h", "336h"}, {"59min", "87601h", "14d", "336"}}},
};

const std::map<std::string, Cases> kSubscriptionsCases{
    {"instances", {{"1", "3", "100000"}, {"0", "-1", "100001", "three", "\"3\"", "3.5", "~"}}},
    {"effective_at",
     {{"2026-11-21T08:15:30Z", "'2026-11-21T08:15:30.5+01:00'", "\"\""}, {"2026-11-21", "now", "~", "1795248930"}}},
    {"allow_empty", {{"true", "false"}, {"yes", "\"true\"", "1", "~"}}},
    {"limits.*.max_rate",
     {{"500/s", "0.2/s", "30/min", "1000/h", "0"}, {"500", "-1/s", "500/day", "~", "{ }", "fast"}}},
    {"subscriptions[].name",
     {{"a", "0", "acme.orders-2"}, {"\"\"", "A", "a_b", ".a", "-a", "a b", "~", "[a]", std::string(129, 'a')}}},
    {"subscriptions[].topic", {{"orders", "A_b.c-9"}, {"\"\"", "a b", "a/b", "..", "~", std::string(250, 'x')}}},
    {"subscriptions[].endpoint",
     {{"http://localhost:8080/x?y=z", "https://billing.example", "HTTPS://x/", "\"http://[::1]:80/\""},
      {"\"\"", "billing.example", "ftp://x/", "https:///x", "http://u:p@x/", "http://u@x/", "http://x/#y",
       "http://x:0/", "http://x:99999/", "http://x:/", "'http://x y/'", "/x", "~", "http://x\xc3\xbc/"}}},
    {"subscriptions[].max_rate", {{"500/s", "0.2/s", "0", "1000/h"}, {"500", "2/d", "-5/s", "~", "1/s/s", "\"\""}}},
    {"subscriptions[].limit", {{"known", "\"\""}, {"unknown", "A", "~"}}},
    {"subscriptions[].burst", {{"smooth", "window"}, {"Smooth", "none", "5"}}},
    {"subscriptions[].start", {{"earliest", "latest"}, {"first", "0"}}},
    {"subscriptions[].paused", {{"true", "false"}, {"no", "'false'", "0"}}},
    {"subscriptions[].max_in_flight", {{"1", "65536"}, {"0", "65537", "many", "-1", "1.0"}}},
    {"subscriptions[].ordering", {{"none", "key", "partition"}, {"strict"}}},
    {"subscriptions[].timeout", {{"1ms", "5s", "1h"}, {"0ms", "5", "2h", "forever"}}},
    {"subscriptions[].ttl", {{"1ms", "1h", "8760h"}, {"0ms", "3600", "8761h"}}},
    {"subscriptions[].ttl_from", {{"read", "published"}, {"now"}}},
    {"subscriptions[].max_attempts", {{"1", "1000000"}, {"0", "1000001", "-1", "~", "'5'"}}},
    {"subscriptions[].backoff.initial", {{"1ms", "60s"}, {"0ms", "1", "61s", "25h"}}},  // max is 60s
    {"subscriptions[].backoff.multiplier", {{"1", "2.5", "100"}, {"0.9", "101", "two", "'2'", "2x"}}},
    {"subscriptions[].backoff.max", {{"1s", "24h"}, {"999ms", "60", "25h"}}},  // initial is 1s
    {"subscriptions[].backoff.jitter", {{"full", "none"}, {"half", "true"}}},
    {"subscriptions[].retry_after_max", {{"0ms", "10min", "24h"}, {"600", "25h"}}},
    {"subscriptions[].retry_client_errors", {{"true", "false"}, {"maybe"}}},
    {"subscriptions[].headers",
     {{"{ x-tenant: acme, n: 5, authorization: 'Bearer x', empty: '' }", "{ }", "~", "{ content-type: text/plain }"},
      {"[ a ]", "text", "{ webhook-id: x }", "{ Posthorn-Attempt: x }", "{ Host: x }", "{ content-length: 1 }",
       "{ transfer-encoding: chunked }", "{ connection: close }", "{ 'a b': x }", "{ a: \"x\\r\\ny: z\" }",
       "{ a: x, A: y }", "{ a: [ x ] }", "{ a: ~ }", "{ a: file:/none }", "{ a: '${NONE}' }", "{ a: ' x' }"}}},
    {"subscriptions[].forward_headers",
     {{"[ trace-*, x-request-id ]", "[ ]", "[ '*' ]", "~"},
      {"x-*", "{ a: b }", "[ 'a*b' ]", "[ '**' ]", "[ 'a b' ]", "[ webhook-id ]", "[ 'posthorn-*' ]", "[ host ]",
       "[ [ a ] ]", "[ '' ]"}}},
    {"subscriptions[].dead_letters", {{"true", "false"}, {"topic"}}},
    {"subscriptions[].http", {{"1.1", "'1.1'"}, {"2", "3", "1.0"}}},  // 2: not with this libcurl
    {"subscriptions[].tls.ca", {{"/etc/ca.pem", "file:/etc/ca.pem"}, {"~", "[ a ]"}}},
    {"subscriptions[].tls.certificate", {{"\"\""}, {"/etc/c.pem", "~"}}},  // without key
    {"subscriptions[].tls.key", {{"\"\""}, {"/etc/k.pem", "~"}}},          // without certificate
    {"subscriptions[].tls.server_name", {{"billing.internal"}, {"'a b'", "~"}}},
};

// `path: value` in block style, at the depth its sections make, in a file that is otherwise right.
std::string Nested(const std::string& path, const std::string& value, std::string indent) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    out += indent + path.substr(begin, dot - begin) + ":\n";
    indent += "  ";
    begin = dot + 1;
  }
  return out + indent + path.substr(begin) + ": " + value + "\n";
}

const std::map<std::string, std::string> kNeededOfSources{
    {"subscriptions.central_dogma.url", "http://d"},
    {"subscriptions.central_dogma.project", "p"},
    {"subscriptions.central_dogma.repository", "r"},
    {"subscriptions.central_dogma.path", "/**"},
    {"subscriptions.kafka_topic.name", "t"},
    {"subscriptions.etcd.url", "http://e"},
    {"subscriptions.etcd.prefix", "/p/"},
    {"subscriptions.url.url", "http://u/"},
};

std::string DeploymentWith(const std::string& path, const std::string& value) {
  std::string text = Nested(path, value, "");
  const std::string source = "subscriptions.";
  const std::size_t key = path.rfind('.') + 1;
  if (path.starts_with(source) && key > source.size()) {
    for (const auto& [needed, good] : kNeededOfSources) {
      if (needed != path && needed.substr(0, needed.rfind('.') + 1) == path.substr(0, key)) {
        text += "    " + needed.substr(key) + ": " + good + "\n";
      }
    }
  } else if (path == "subscriptions.cache") {
    text += "  file: s.yaml\n";
  } else if (path != "subscriptions.file") {
    text += "subscriptions: { file: s.yaml }\n";
  }
  if (path != "fleet") text += "fleet: orders\n";
  if (path != "kafka") text += "kafka: { bootstrap.servers: h:1 }\n";
  return text;
}

std::string SubscriptionsWith(const std::string& path, const std::string& value) {
  const std::string item = "subscriptions[].";
  if (!path.starts_with(item)) {
    return OneSubscription("", Nested(path.starts_with("limits.*.") ? "limits.a.max_rate" : path, value, ""));
  }
  const std::string key = path.substr(item.size());
  std::string text = "limits: { known: { max_rate: 1/s } }\nsubscriptions:\n  -\n";
  if (key != "name") text += "    name: n\n";
  if (key != "topic") text += "    topic: t\n";
  if (key != "endpoint") text += "    endpoint: https://x/\n";
  return text + Nested(key, value, "    ");
}

std::vector<Fault> TryDeployment(const std::string& path, const std::string& value) {
  return LoadText(DeploymentWith(path, value)).faults;
}

std::vector<Fault> TrySubscriptions(const std::string& path, const std::string& value) {
  return LoadOne(SubscriptionsWith(path, value)).faults;
}

void TryAll(Document document, const std::map<std::string, Cases>& cases,
            std::vector<Fault> (*faults_of)(const std::string&, const std::string&)) {
  for (const Option& option : Options(document)) {
    const bool section = option.type == Type::kSection || option.type == Type::kSections || option.type == Type::kNamed;
    if (section || !option.unavailable.empty()) continue;
    const auto found = cases.find(std::string(option.path));
    ASSERT_NE(found, cases.end()) << "no cases for " << option.path;
    for (const std::string& value : found->second.good) {
      const auto faults = faults_of(found->first, value);
      EXPECT_THAT(faults, IsEmpty()) << option.path << ": " << value << "\n" << ToString(faults);
    }
    for (const std::string& value : found->second.bad) {
      const auto faults = faults_of(found->first, value);
      ASSERT_EQ(faults.size(), 1u) << option.path << ": " << value << "\n" << ToString(faults);
      EXPECT_FALSE(faults[0].rule.empty());
      EXPECT_GT(faults[0].line, 0) << ToString(faults);
      const std::string key(option.path.substr(option.path.rfind('.') + 1));
      EXPECT_THAT(faults[0].path, HasSubstr(key.starts_with("backoff") ? "backoff" : key)) << ToString(faults);
    }
  }
}

TEST(OptionTableTest, EveryDeploymentOptionTakesTheGoodAndRefusesTheBad) {
  TryAll(Document::kDeployment, kDeploymentCases, &TryDeployment);
}

TEST(OptionTableTest, EverySubscriptionsOptionTakesTheGoodAndRefusesTheBad) {
  TryAll(Document::kSubscriptions, kSubscriptionsCases, &TrySubscriptions);
}

TEST(OptionTableTest, DefaultsAreInRangeAndTypesMatch) {
  for (const Document document : kDocuments) {
    for (const Option& option : Options(document)) {
      EXPECT_FALSE(option.help.empty()) << option.path;
      EXPECT_EQ(option.type == Type::kEnum, !option.choices.empty()) << option.path;
      EXPECT_EQ(option.min.empty(), option.max.empty()) << option.path;
      EXPECT_EQ(FindOption(document, option.path), &option) << "twice: " << option.path;
    }
  }
}

// The table's default, written out, changes nothing: model.h and table say the same.
TEST(OptionTableTest, ModelHasTheDefaultsOfTheTable) {
  const auto bare = LoadOne(OneSubscription(""));
  ASSERT_TRUE(bare);
  for (const Option& option : Options(Document::kSubscriptions)) {
    const std::string item = "subscriptions[].";
    if (option.fallback.empty() || !option.path.starts_with(item)) continue;
    const auto given = LoadOne(
        OneSubscription(Nested(std::string(option.path.substr(item.size())), std::string(option.fallback), "    ")));
    ASSERT_TRUE(given) << option.path << "\n" << ToString(given.faults);
    EXPECT_EQ(given.value->subscriptions, bare.value->subscriptions) << option.path;
  }
  const auto deployment = LoadText(kDeploymentText);
  ASSERT_TRUE(deployment);
  for (const Option& option : Options(Document::kDeployment)) {
    // A setting of another source would be a second one: load_deployment_test.cc has its default.
    if (option.fallback.empty() || option.path.starts_with("subscriptions.")) continue;
    const auto given = LoadText(kDeploymentText, {std::string(option.path) + "=" + std::string(option.fallback)});
    ASSERT_TRUE(given) << option.path << "\n" << ToString(given.faults);
    EXPECT_EQ(given.value, deployment.value) << option.path;
  }
}

TEST(OptionTableTest, EveryOptionHasAFieldAndEveryFieldAnOption) {
  std::set<std::string> subscription_fields{"max_rate", "burst"};  // a limit of their own
  const Subscription subscription;
  VisitFields(subscription, [&](std::string_view key, const auto&) { subscription_fields.emplace(key); });
  std::set<std::string> deployment_fields;
  const Deployment deployment;
  VisitFields(deployment, [&](std::string_view key, const auto&) { deployment_fields.emplace(key); });
  std::set<std::string> subscription_options;
  std::set<std::string> deployment_options;
  const std::string item = "subscriptions[].";
  for (const Option& option : Options(Document::kSubscriptions)) {
    if (option.path.starts_with(item) && option.type != Type::kSection) {
      subscription_options.emplace(option.path.substr(item.size()));
    }
  }
  for (const Option& option : Options(Document::kDeployment)) {
    if (option.type != Type::kSection && option.unavailable.empty()) deployment_options.emplace(option.path);
  }
  EXPECT_EQ(subscription_fields, subscription_options);
  EXPECT_EQ(deployment_fields, deployment_options);
}

TEST(OptionTableTest, NearestForgivesSlipsOnly) {
  const std::vector<std::string_view> known{"timeout", "topic", "ttl", "max_attempts"};
  EXPECT_EQ(Nearest("timout", known), "timeout");
  EXPECT_EQ(Nearest("tiemout", known), "timeout");
  EXPECT_EQ(Nearest("Topic", known), "topic");
  EXPECT_EQ(Nearest("max-attempts", known), "max_attempts");
  EXPECT_EQ(Nearest("certificate", known), "");
  EXPECT_EQ(Nearest("q", known), "");
}

// What the loader refuses and no schema can, by why: everything else a schema must refuse, too.
const std::set<std::string> kBeyondASchema{
    // How much a duration or a size is: they are texts.
    "memory: 512KiB",
    "memory: 2048GiB",
    "shutdown_timeout: 61min",
    "max_clock_offset: 11s",
    "retry_topic.retention: 59min",
    "retry_topic.retention: 87601h",
    "subscriptions.url.every: 99ms",
    "subscriptions.url.every: 2h",
    "subscriptions[].timeout: 0ms",
    "subscriptions[].timeout: 2h",
    "subscriptions[].ttl: 0ms",
    "subscriptions[].ttl: 8761h",
    "subscriptions[].backoff.initial: 0ms",
    "subscriptions[].backoff.initial: 25h",
    "subscriptions[].backoff.max: 25h",
    "subscriptions[].retry_after_max: 25h",
    // What another key says.
    "membership: static",
    "subscriptions.file: \"\"",
    "subscriptions.etcd.user: posthorn",
    "subscriptions.etcd.password: hunter2",
    "subscriptions.etcd.certificate: /etc/c.pem",
    "subscriptions.etcd.key: /etc/k.pem",
    "subscriptions[].limit: unknown",
    "subscriptions[].backoff.initial: 61s",
    "subscriptions[].backoff.max: 999ms",
    "subscriptions[].tls.certificate: /etc/c.pem",
    "subscriptions[].tls.key: /etc/k.pem",
    // What is in a file or a variable.
    "kafka: { bootstrap.servers: h:1, a: file:/none }",
    "subscriptions[].headers: { a: file:/none }",
    "subscriptions[].headers: { a: '${NONE}' }",
    // Patterns: a few words that are not allowed, numbers in a text, bytes, lengths of names. They stay readable.
    "admin: localhost:65536",
    "admin: 'a b:1'",
    "fleet: .",
    "fleet: ..",
    "fleet: " + std::string(101, 'x'),
    "instance: " + std::string(250, 'x'),
    "kafka: { bootstrap.servers: h:1, group.id: x }",
    "kafka: { bootstrap.servers: h:1, enable.auto.commit: true }",
    "kafka: { bootstrap.servers: h:1, a: file:none }",
    "control.kafka: { bootstrap.servers: h:1, group.id: x }",
    "subscriptions.central_dogma.project: ..",
    "subscriptions.central_dogma.repository: .",
    "subscriptions.central_dogma.token: file:x",
    "subscriptions.central_dogma.token: \"a\\nb\"",
    "subscriptions.kafka_topic.name: ..",
    "subscriptions.etcd.password: file:x",
    "subscriptions.url.headers: { host: x }",
    "subscriptions.url.headers: { If-None-Match: x }",
    "subscriptions.url.headers: { a: file:x }",
    "subscriptions.url.headers: { a: \"x\\ny\" }",
    "subscriptions[].topic: ..",
    "subscriptions[].topic: " + std::string(250, 'x'),
    "subscriptions[].endpoint: http://x:0/",
    "subscriptions[].endpoint: http://x:99999/",
    "subscriptions[].endpoint: http://x:/",
    "subscriptions[].endpoint: 'http://x y/'",
    "subscriptions[].endpoint: http://x\xc3\xbc/",
    "subscriptions[].headers: { webhook-id: x }",
    "subscriptions[].headers: { Posthorn-Attempt: x }",
    "subscriptions[].headers: { Host: x }",
    "subscriptions[].headers: { content-length: 1 }",
    "subscriptions[].headers: { transfer-encoding: chunked }",
    "subscriptions[].headers: { connection: close }",
    "subscriptions[].headers: { a: \"x\\r\\ny: z\" }",
    "subscriptions[].headers: { a: ' x' }",
    "subscriptions[].forward_headers: [ webhook-id ]",
    "subscriptions[].forward_headers: [ 'posthorn-*' ]",
    "subscriptions[].forward_headers: [ host ]",
    // Keys that are the same but for their case.
    "subscriptions.url.headers: { a: x, A: y }",
    "subscriptions[].headers: { a: x, A: y }",
    // YAML's types: a number without quotes passes where a text is needed, and 1.0 is the integer 1.
    "admin: 8080",
    "effective_at: 1795248930",
    "subscriptions[].max_in_flight: 1.0",
    // What this libcurl can do.
    "subscriptions[].http: 2",
};

void TrySchema(Document document, const std::map<std::string, Cases>& cases,
               std::string (*text_with)(const std::string&, const std::string&)) {
  const JsonSchemaCheck schema(JsonSchema(document));
  for (const auto& [path, tried] : cases) {
    for (const std::string& value : tried.good) {
      EXPECT_EQ(schema.Refusal(text_with(path, value)), "") << path << ": " << value;
    }
    for (const std::string& value : tried.bad) {
      const bool refused = !schema.Refusal(text_with(path, value)).empty();
      EXPECT_NE(refused, kBeyondASchema.contains(path + ": " + value)) << path << ": " << value;
    }
  }
}

TEST(SchemaTest, TakesWhatTheLoaderTakesAndRefusesWhatASchemaCan) {
  TrySchema(Document::kDeployment, kDeploymentCases, &DeploymentWith);
  TrySchema(Document::kSubscriptions, kSubscriptionsCases, &SubscriptionsWith);
}

TEST(SchemaTest, RefusesUnknownKeysMissingOnesAndTwoSources) {
  const JsonSchemaCheck deployment(JsonSchema(Document::kDeployment));
  EXPECT_EQ(deployment.Refusal(kDeploymentText), "");
  EXPECT_EQ(deployment.Refusal(kDeploymentText + "shard: 3\n"), "/shard: additionalProperties");
  EXPECT_EQ(deployment.Refusal("fleet: f\nsubscriptions: { file: s }\n"), "/: required");
  EXPECT_NE(deployment.Refusal("fleet: f\nkafka: { bootstrap.servers: h:1 }\n"
                               "subscriptions: { file: s, kafka_topic: { name: t } }\n"),
            "");
  const JsonSchemaCheck subscriptions(JsonSchema(Document::kSubscriptions));
  EXPECT_EQ(subscriptions.Refusal(OneSubscription("")), "");
  EXPECT_EQ(subscriptions.Refusal(OneSubscription("    backoff: { first: 1s }\n")),
            "/subscriptions/0/backoff/first: additionalProperties");
  EXPECT_EQ(subscriptions.Refusal("subscriptions: [ { name: a, topic: t } ]\n"), "/subscriptions/0: required");
  EXPECT_EQ(subscriptions.Refusal("defaults: { endpoint: http://x/ }\n"), "/defaults/endpoint: additionalProperties");
  EXPECT_NE(subscriptions.Refusal(OneSubscription("    max_rate: 1/s\n    limit: a\n")), "");
}

TEST(SchemaTest, TakesVariablesWhereverAValueMayBeOne) {
  const JsonSchemaCheck subscriptions(JsonSchema(Document::kSubscriptions));
  EXPECT_EQ(
      subscriptions.Refusal(OneSubscription("    max_rate: ${RATE}\n    max_in_flight: ${N:-5}\n    paused: ${P}\n"
                                            "    timeout: ${T}s\n    ordering: ${O}\n",
                                            "instances: ${N}\n")),
      "");
}

TEST(SchemaTest, NamesEveryOptionWithItsHelp) {
  for (const Document document : kDocuments) {
    const std::string schema = JsonSchema(document);
    for (const Option& option : Options(document)) {
      const std::string key(option.path.substr(option.path.find_last_of(".]") + 1));
      if (!option.unavailable.empty() || key.empty()) continue;
      EXPECT_THAT(schema, HasSubstr("\"" + key + "\": {")) << option.path;
    }
  }
}

}  // namespace
}  // namespace posthorn::config
