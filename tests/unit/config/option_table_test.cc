#include "config/option_table.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "config/effective.h"
#include "config/fields.h"
#include "config/reader.h"
#include "tests/unit/config/config_fixture.h"

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

std::vector<Fault> TryDeployment(const std::string& path, const std::string& value) {
  std::string text = Nested(path, value, "");
  if (path != "fleet") text += "fleet: orders\n";
  if (path != "kafka") text += "kafka: { bootstrap.servers: h:1 }\n";
  if (path != "subscriptions.file") text += "subscriptions: { file: s.yaml }\n";
  return LoadText(text).faults;
}

std::vector<Fault> TrySubscriptions(const std::string& path, const std::string& value) {
  const std::string item = "subscriptions[].";
  if (!path.starts_with(item)) {
    if (path.starts_with("limits.*."))
      return LoadOne(OneSubscription("", Nested("limits.a.max_rate", value, ""))).faults;
    return LoadOne(OneSubscription("", Nested(path, value, ""))).faults;
  }
  const std::string key = path.substr(item.size());
  std::string text = "limits: { known: { max_rate: 1/s } }\nsubscriptions:\n  -\n";
  if (key != "name") text += "    name: n\n";
  if (key != "topic") text += "    topic: t\n";
  if (key != "endpoint") text += "    endpoint: https://x/\n";
  return LoadOne(text + Nested(key, value, "    ")).faults;
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

TEST(OptionTableTest, UnavailableOptionsAreRefusedNotIgnored) {
  int seen = 0;
  for (const Option& option : Options(Document::kDeployment)) {
    if (option.unavailable.empty()) continue;
    ++seen;
    const std::string key(option.path.substr(option.path.rfind('.') + 1));
    const auto faults = LoadText(kDeploymentText, {std::string(option.path) + "=x"}).faults;
    ASSERT_EQ(faults.size(), 1u) << option.path;
    EXPECT_THAT(faults[0].rule, HasSubstr("not in this version")) << option.path;
    EXPECT_EQ(faults[0].path, option.path);
  }
  EXPECT_EQ(seen, 5);
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
    if (option.fallback.empty()) continue;
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

}  // namespace
}  // namespace posthorn::config
