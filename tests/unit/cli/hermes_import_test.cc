#include "worker/cli/hermes_import.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "config/sources/base64.h"
#include "worker/cli/import_command.h"

namespace posthorn::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Subscription(const std::string& more = {}, const std::string& name = "billing",
                         const std::string& endpoint = "https://billing.example/hook") {
  return R"({"topicName":"com.acme.Orders","name":")" + name + R"(","endpoint":")" + endpoint +
         R"(","state":"ACTIVE","deliveryType":"SERIAL","mode":"ANYCAST","contentType":"JSON","description":"")" + more +
         "}";
}

HermesImport Import(const std::string& text, const std::string& kafka_namespace = {}) {
  return ImportHermes(text, kafka_namespace, {});
}

config::Snapshot Loaded(const HermesImport& imported) {
  auto loaded = config::LoadSubscriptions({{"imported.yaml", imported.yaml}});
  EXPECT_TRUE(loaded) << config::ToString(loaded.faults) << imported.yaml;
  return loaded ? std::move(*loaded.value) : config::Snapshot();
}

TEST(HermesImportTest, AWholePolicyBecomesOptions) {
  const auto imported = Import(Subscription(
      R"(,"subscriptionPolicy":{"rate":120,"messageTtl":60,"messageBackoff":250,"backoffMultiplier":1.5,
          "backoffMaxIntervalInSec":30,"retryClientErrors":true,"requestTimeout":800,"socketTimeout":0,
          "inflightSize":7,"sendingDelay":0},
         "headers":[{"name":"x-tenant","value":"acme"}])"));
  const auto snapshot = Loaded(imported);
  ASSERT_EQ(snapshot.subscriptions.size(), 1u);
  const auto& s = snapshot.subscriptions[0];
  EXPECT_EQ(s.name, "billing");
  EXPECT_EQ(s.topic, "com.acme.Orders");
  EXPECT_EQ(s.endpoint, "https://billing.example/hook");
  EXPECT_EQ(snapshot.limits.at(0).max_rate.ToString(), "120/s");
  EXPECT_EQ(s.ttl, std::chrono::seconds(60));
  EXPECT_EQ(s.backoff,
            (config::Backoff{std::chrono::milliseconds(250), 1.5, std::chrono::seconds(30), config::Jitter::kNone}));
  EXPECT_EQ(s.timeout, std::chrono::milliseconds(800));
  EXPECT_EQ(s.max_in_flight, 7u);
  EXPECT_TRUE(s.retry_client_errors);
  EXPECT_FALSE(s.paused);
  EXPECT_THAT(s.headers, ::testing::ElementsAre(::testing::Pair("x-tenant", "acme")));
  EXPECT_THAT(imported.notes, IsEmpty());
}

TEST(HermesImportTest, WhatAPolicyDoesNotSayIsAsInHermes) {
  const auto snapshot = Loaded(Import(Subscription()));
  const auto& s = snapshot.subscriptions.at(0);
  EXPECT_EQ(snapshot.limits.at(0).max_rate.ToString(), "400/s");
  EXPECT_EQ(s.ttl, std::chrono::hours(1));
  EXPECT_EQ(s.timeout, std::chrono::seconds(1));
  EXPECT_EQ(s.max_in_flight, 100u);
  EXPECT_EQ(s.backoff.initial, std::chrono::milliseconds(100));
  EXPECT_EQ(s.backoff.multiplier, 1);
}

TEST(HermesImportTest, EveryOptionWithoutCounterpartIsNamed) {
  const auto imported = Import(Subscription(
      R"(,"subscriptionPolicy":{"socketTimeout":500,"sendingDelay":200,"novel":3},"trackingMode":"trackingAll",
         "owner":{"source":"Plaintext","id":"me"},"monitoringDetails":{"severity":"CRITICAL","reaction":""},
         "endpointAddressResolverMetadata":{"a":1},"metricsConfig":{"x":true},"profilingEnabled":true,
         "autoDeleteWithTopicEnabled":true,"http2Enabled":true)"));
  for (const char* option : {"subscriptionPolicy.socketTimeout (500 ms)", "subscriptionPolicy.sendingDelay (200 ms)",
                             "subscriptionPolicy.novel", "trackingMode trackingAll", "owner", "monitoringDetails",
                             "endpointAddressResolverMetadata", "metricsConfig", "profilingEnabled",
                             "autoDeleteWithTopicEnabled", "http2Enabled"}) {
    EXPECT_THAT(imported.yaml, HasSubstr("# - " + std::string(option)));
    EXPECT_THAT(imported.notes, Contains(AllOf(HasSubstr("billing: "), HasSubstr(option))));
  }
  EXPECT_FALSE(Loaded(imported).subscriptions.at(0).paused);
}

TEST(HermesImportTest, WhatWouldDeliverSomethingElseIsPaused) {
  for (const char* more : {R"(,"filters":[{"type":"jsonpath","path":"$.a","matcher":"b"}])",
                           R"(,"oAuthPolicy":{"grantType":"x"})", R"(,"state":"SUSPENDED")",
                           R"(,"deliveryType":"BATCH","subscriptionPolicy":{"batchSize":10,"messageTtl":30})"}) {
    std::string text = Subscription();
    // The later key wins in JSON; Hermes writes each once.
    for (const char* key : {R"("state":"ACTIVE",)", R"("deliveryType":"SERIAL",)"}) {
      if (std::string(more).find(std::string(key).substr(0, 8)) != std::string::npos)
        text.erase(text.find(key), std::string(key).size());
    }
    text.insert(text.size() - 1, more);
    const auto imported = Import(text);
    EXPECT_TRUE(Loaded(imported).subscriptions.at(0).paused) << more;
    EXPECT_EQ(imported.notes.empty(), false) << more;
  }
}

TEST(HermesImportTest, OneInFlightIsTheWishForOrderAndNoTtlOneAttempt) {
  const auto s =
      Loaded(Import(Subscription(R"(,"subscriptionPolicy":{"inflightSize":1,"messageTtl":0})"))).subscriptions.at(0);
  EXPECT_EQ(s.ordering, config::Ordering::kPartition);
  EXPECT_EQ(s.max_in_flight, 1u);
  EXPECT_EQ(s.max_attempts, 1u);
}

TEST(HermesImportTest, PasswordsOfUrlsAreNeitherKeptNorShown) {
  const auto imported = Import(Subscription("", "billing", "https://user:hunter2@billing.example/hook"));
  const auto s = Loaded(imported).subscriptions.at(0);
  EXPECT_EQ(s.endpoint, "https://billing.example/hook");
  EXPECT_TRUE(s.paused);
  std::string all = imported.yaml;
  for (const auto& note : imported.notes) all += note;
  EXPECT_THAT(all, Not(HasSubstr("hunter2")));
}

TEST(HermesImportTest, WhatCannotBeASubscriptionStandsThereAsAComment) {
  const auto imported = Import("[" + Subscription("", "a", "jms://queue") + "," +
                               Subscription("", "b", "http://x/{id}") + "," + Subscription("", "c") + "]");
  EXPECT_EQ(imported.taken, 1);
  EXPECT_EQ(imported.left_out, 2);
  EXPECT_EQ(Loaded(imported).subscriptions.at(0).name, "c");
  EXPECT_THAT(imported.yaml, AllOf(HasSubstr("# - name: a\n"), HasSubstr("jms://queue")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("a: left out: endpoint:")));
  EXPECT_EQ(Loaded(Import(Subscription("", "x", "http://x/"))).subscriptions.size(), 1u);
  const auto none = Import(Subscription("", "a", "jms://queue"));
  EXPECT_THAT(none.yaml, HasSubstr("subscriptions: []"));
}

TEST(HermesImportTest, NamesBecomeNamesAndStayUnique) {
  const auto other = [](const std::string& topic, const std::string& name) {
    return R"({"topicName":")" + topic + R"(","name":")" + name + R"(","endpoint":"http://x/"})";
  };
  const auto imported = Import(other("t.A", "Push_It") + other("t.A", "same") + other("t.B", "same"));
  std::vector<std::string> names;
  for (const auto& s : Loaded(imported).subscriptions) names.push_back(s.name);
  EXPECT_THAT(names, ::testing::ElementsAre("push-it", "t.a.same", "t.b.same"));
  EXPECT_THAT(imported.notes, Contains("push-it: name: in Hermes Push_It"));
}

TEST(HermesImportTest, NamesThatBecomeOneAreCountedUp) {
  const auto other = [](const std::string& topic, const std::string& name) {
    return R"({"topicName":")" + topic + R"(","name":")" + name + R"(","endpoint":"http://x/"})";
  };
  const auto imported = Import(other("t.A", "Push_It") + other("t.A", "push-it") + other("t.A", "same") +
                               other("t.B", "same") + other("u.C", "t.a.same"));
  std::vector<std::string> names;
  for (const auto& s : Loaded(imported).subscriptions) names.push_back(s.name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("t.a.push-it", "t.a.push-it-2", "t.a.same", "t.a.same-2", "t.b.same"));
}

TEST(HermesImportTest, OneThatStandsThereTwiceIsTakenOnce) {
  EXPECT_THAT(Import(Subscription() + Subscription()).notes, IsEmpty());
  const auto imported = Import(Subscription() + Subscription(R"(,"subscriptionPolicy":{"rate":7})"));
  EXPECT_EQ(imported.taken, 1);
  EXPECT_THAT(imported.notes, Contains(HasSubstr("billing: stands there twice")));
}

TEST(HermesImportTest, NumbersBeyondEverythingAreNoSubscription) {
  const auto imported = Import(Subscription(R"(,"subscriptionPolicy":{"rate":1e300})"));
  EXPECT_EQ(imported.left_out, 1);
  const auto s = Loaded(Import(Subscription(R"(,"subscriptionPolicy":{"messageTtl":1e300,"inflightSize":-1e300})")));
  EXPECT_EQ(s.subscriptions.at(0).ttl, std::chrono::hours(8760));
}

TEST(HermesImportTest, ReadsWhatZooKeepersToolsPrint) {
  const std::string one = Subscription("", "a");
  EXPECT_EQ(Import("[zk: localhost:2181(CONNECTED) 0] ls /hermes/groups/com.acme/topics/Orders/subscriptions\n"
                   "[a, b]\n[zk: localhost:2181(CONNECTED) 1] get /hermes/.../a\n" +
                   one + "\n[zk: localhost:2181(CONNECTED) 2] quit\n")
                .taken,
            1);
  std::string escaped;
  for (const char c : one) escaped += (c == '"' ? "\\\"" : std::string(1, c));
  EXPECT_EQ(Import(R"([{"path":"/hermes/.../a","data":")" + escaped + "\"}]").taken, 1);
  EXPECT_EQ(Import(R"([{"path":"/hermes/.../a","data":")" + config::EncodeBase64(one) + "\"}]").taken, 1);
  EXPECT_THAT(Import("Watcher{" + one.substr(0, one.size() - 1)).error, HasSubstr("not JSON"));
}

TEST(HermesImportTest, ReadsListsLinesAndNodesWithTheirPaths) {
  const std::string one = Subscription("", "a");
  const std::string two = Subscription("", "b");
  for (const std::string& text :
       {"[" + one + "," + two + "]", one + "\n" + two + "\n",
        "/hermes/groups/com.acme/topics/Orders/subscriptions/a = " + one + "\n/hermes/.../subscriptions/b = " + two,
        "{\"subscriptions\":{\"a\":" + one + ",\"b\":" + two + "}, \"topic\": {\"name\":\"t\"}}"}) {
    const auto imported = Import(text);
    EXPECT_EQ(imported.taken, 2) << text;
  }
  EXPECT_EQ(Import("{\"name\":\"t\",\"retentionTime\":{\"duration\":1}}").others, 1);
  EXPECT_THAT(Import("{ broken").error, HasSubstr("not JSON"));
  EXPECT_THAT(Import("nothing").error, HasSubstr("no JSON"));
}

TEST(HermesImportTest, TextsOfOthersStayInsideTheirCommentOrQuotes) {
  const auto imported =
      Import(Subscription(R"(,"headers":[{"name":"x-a","value":"\"${HOME}\" # \\"}],"owner":{"id":"a\nb"},
      "x\ny":1)"));
  const auto s = Loaded(imported).subscriptions.at(0);
  EXPECT_THAT(s.headers, ::testing::ElementsAre(::testing::Pair("x-a", "\"${HOME}\" # \\")));
}

TEST(HermesImportTest, TopicsAreCalledAsTheNamespaceHasThem) {
  EXPECT_EQ(Loaded(Import(Subscription(), "prod")).subscriptions.at(0).topic, "prod_com.acme.Orders");
}

TEST(ImportCommandTest, FollowsTheManagementApiDown) {
  std::vector<std::string> asked;
  const FetchUrl fetch = [&](const std::string& url, std::string* why) -> std::optional<std::string> {
    asked.push_back(url);
    if (url.ends_with("/topics")) return R"(["com.acme.Orders"])";
    if (url.ends_with("/subscriptions")) return R"(["a","b"])";
    if (url.ends_with("/a") || url.ends_with("/b")) return Subscription("", url.substr(url.size() - 1));
    *why = "answered 404";
    return std::nullopt;
  };
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunImportHermes({"http://hermes:8090", ""}, {}, fetch, out, err), 0) << err.str();
  EXPECT_THAT(out.str(), AllOf(HasSubstr("name: a"), HasSubstr("name: b")));
  EXPECT_THAT(err.str(), HasSubstr("2 subscriptions"));
  EXPECT_EQ(asked.front(), "http://hermes:8090/topics");
  EXPECT_EQ(asked.back(), "http://hermes:8090/topics/com.acme.Orders/subscriptions/b");
  EXPECT_EQ(RunImportHermes({"http://hermes:8090/topics/x", ""}, {}, fetch, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("answered 404"));
  EXPECT_EQ(RunImportHermes({"/nowhere/x.json", ""}, {}, fetch, out, err), 1);
}

}  // namespace
}  // namespace posthorn::cli
