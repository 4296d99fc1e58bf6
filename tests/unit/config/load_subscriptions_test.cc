#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/unit/config/config_fixture.h"

namespace posthorn::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

ratelimit::MaxRate Rate(const std::string& text) { return ratelimit::MaxRate::Parse(text, nullptr).value(); }

// The one fault of a text.
Fault Only(const Loaded<Snapshot>& loaded) {
  EXPECT_THAT(loaded.faults, SizeIs(1)) << ToString(loaded.faults);
  return loaded.faults.empty() ? Fault() : loaded.faults.front();
}

std::string Item(const std::string& name, const std::string& keys = {}) {
  return "  - { name: " + name + ", topic: t, endpoint: 'http://x/'" + (keys.empty() ? "" : ", " + keys) + " }\n";
}

TEST(LoadSubscriptionsTest, WholeFile) {
  const auto loaded = LoadOne(R"(
instances: 3
defaults: { timeout: 4s, ttl: 2h }
limits:
  acme: { max_rate: 800/s }
subscriptions:
  - name: billing
    topic: orders
    endpoint: https://billing.example/hooks/orders
    max_rate: 500/s
    burst: window
    start: latest
    paused: true
    max_in_flight: 10
    ordering: none
    timeout: 5s
    ttl_from: published
    max_attempts: 20
    backoff: { initial: 2s, multiplier: 1.5, max: 30s, jitter: none }
    retry_after_max: 1min
    retry_client_errors: true
    headers: { x-tenant: acme }
    forward_headers: [ trace-*, x-request-id ]
    dead_letters: false
    http: 2
    tls: { ca: /ca.pem, certificate: /c.pem, key: /k.pem, server_name: billing }
  - name: audit
    topic: orders
    endpoint: https://audit.example/
    limit: acme
)",
                              {.http2 = true});
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const Snapshot& s = *loaded.value;
  EXPECT_EQ(s.instances, 3u);
  EXPECT_EQ(s.digest.size(), 16u);
  EXPECT_THAT(s.limits, ElementsAre(Limit{"acme", Rate("800/s"), Burst::kSmooth},
                                    Limit{"billing", Rate("500/s"), Burst::kWindow}));
  ASSERT_THAT(s.subscriptions, SizeIs(2));
  const Subscription& audit = s.subscriptions[0];
  EXPECT_EQ(audit.name, "audit");
  EXPECT_EQ(audit.limit, "acme");
  EXPECT_EQ(audit.timeout, Milliseconds(4000));
  EXPECT_EQ(audit.max_attempts, std::nullopt);
  const Subscription& billing = s.subscriptions[1];
  EXPECT_EQ(billing.limit, "billing");
  EXPECT_EQ(billing.start, Start::kLatest);
  EXPECT_TRUE(billing.paused);
  EXPECT_EQ(billing.max_in_flight, 10u);
  EXPECT_EQ(billing.timeout, Milliseconds(5000));
  EXPECT_EQ(billing.ttl, Milliseconds(7'200'000));
  EXPECT_EQ(billing.ttl_from, TtlFrom::kPublished);
  EXPECT_EQ(billing.max_attempts, 20u);
  EXPECT_EQ(billing.backoff, (Backoff{Milliseconds(2000), 1.5, Milliseconds(30'000), Jitter::kNone}));
  EXPECT_EQ(billing.retry_after_max, Milliseconds(60'000));
  EXPECT_TRUE(billing.retry_client_errors);
  EXPECT_THAT(billing.headers, ElementsAre(Pair("x-tenant", "acme")));
  EXPECT_THAT(billing.secret_headers, IsEmpty());
  EXPECT_THAT(billing.forward_headers, ElementsAre("trace-*", "x-request-id"));
  EXPECT_FALSE(billing.dead_letters);
  EXPECT_EQ(billing.http, HttpVersion::k2);
  EXPECT_EQ(billing.tls, (Tls{"/ca.pem", "/c.pem", "/k.pem", "billing"}));
}

TEST(LoadSubscriptionsTest, EveryFaultInOneReportWithItsPlace) {
  const auto loaded = LoadOne(R"(instances: 0
defaults: { name: x, timeout: 5 }
limits:
  Acme: { max_rate: 800 }
subscriptions:
  - name: billing
    topic: orders
    endpoint: ftp://x/
    timout: 5s
    ordering: strict
  - topic: orders
    endpoint: https://y/
    max_in_flight: [ 1 ]
    headers: { authorization: "${NONE}" }
  - name: billing
    topic: orders
    endpoint: https://y/
    limit: acme
    ttl: 1h
    ttl: 2h
colour: red
)");
  EXPECT_FALSE(loaded);
  std::string report = ToString(loaded.faults);
  const std::vector<std::string> lines{
      "s.yaml:1:12: instances: \"0\": out of range: 1 to 100000",
      "s.yaml:2:13: defaults.name: each subscription has its own",
      "s.yaml:2:31: defaults.timeout: \"5\": a bare number has no unit: needs a duration like 200ms, 5s, 10min or 1h",
      "s.yaml:4:3: limits.Acme: \"Acme\": begins with a-z or 0-9",
      "s.yaml:4:21: limits.Acme.max_rate: \"800\": ",
      "s.yaml:8:15: subscriptions[0].endpoint: \"ftp://x/\": needs an http or https URL",
      "s.yaml:9:5: subscriptions[0].timout: unknown key (did you mean `timeout`?)",
      "s.yaml:10:15: subscriptions[0].ordering: \"strict\": needs ",
      "s.yaml:11:5: subscriptions[1].name: is needed",
      "s.yaml:13:20: subscriptions[1].max_in_flight: needs integer, not a list",
      "s.yaml:14:31: subscriptions[1].headers.authorization: \"***\": the environment variable NONE is not set",
      "s.yaml:15:11: subscriptions[2].name: \"billing\": a subscription of this name stands in s.yaml:6",
      "s.yaml:18:12: subscriptions[2].limit: \"acme\": no such limit in `limits` (did you mean `Acme`?)",
      "s.yaml:20:5: ttl: the key stands here twice",
      "s.yaml:21:1: colour: unknown key (known here: instances, effective_at, allow_empty, defaults, limits, "
      "subscriptions)",
  };
  std::size_t at = 0;
  for (const std::string& line : lines) {
    const std::size_t found = report.find(line, at);
    EXPECT_NE(found, std::string::npos) << line << "\nin order in\n" << report;
    if (found != std::string::npos) at = found;
  }
  EXPECT_THAT(loaded.faults, SizeIs(lines.size())) << report;
}

TEST(LoadSubscriptionsTest, EmptyIsRefusedUnlessAllowed) {
  for (const char* text : {"", "subscriptions: []\n", "subscriptions:\n", "instances: 2\n"}) {
    EXPECT_THAT(Only(LoadOne(text)).rule, HasSubstr("allow_empty")) << text;
  }
  EXPECT_THAT(ToString(Only(LoadSubscriptions({}))), ::testing::StartsWith("subscriptions: the source holds no doc"));
  EXPECT_THAT(Only(LoadOne("allow_empty: false\n")).rule, HasSubstr("allow_empty"));
  EXPECT_TRUE(LoadOne("allow_empty: true\n"));
  EXPECT_TRUE(LoadOne("allow_empty: true\nsubscriptions: []\n"));
}

TEST(LoadSubscriptionsTest, NotEvenAMap) {
  EXPECT_THAT(Only(LoadOne("hello")).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("[ 1 ]")).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("subscriptions: { a: b }")).rule, HasSubstr("needs a list"));
  EXPECT_THAT(Only(LoadOne("subscriptions: [ a ]")).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("subscriptions: [ ~ ]")).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("limits: [ a ]\nsubscriptions:\n" + Item("a"))).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("limits: { a: 5/s }\nsubscriptions:\n" + Item("a"))).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne("limits: { a: {} }\nsubscriptions:\n" + Item("a"))).rule, HasSubstr("is needed"));
  EXPECT_THAT(Only(LoadOne("defaults: 5\nsubscriptions:\n" + Item("a"))).rule, HasSubstr("needs a map"));
  EXPECT_THAT(Only(LoadOne(OneSubscription("    backoff: 5s\n"))).rule, HasSubstr("needs a map"));
}

TEST(LoadSubscriptionsTest, DefaultsAreJoinedKeyByKeyInSections) {
  const auto loaded = LoadOne(
      "defaults: { backoff: { initial: 3s, jitter: none }, max_attempts: 7, headers: { a: b }, max_rate: 5/s, burst: "
      "window }\n"
      "limits: { l: { max_rate: 1/s } }\nsubscriptions:\n" +
      Item("a", "backoff: { max: 9s }, headers: { c: d }") + Item("b", "max_rate: 6/s, burst: smooth") +
      Item("c", "limit: l"));
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const auto& s = loaded.value->subscriptions;
  EXPECT_EQ(s[0].backoff, (Backoff{Milliseconds(3000), 2, Milliseconds(9000), Jitter::kNone}));
  EXPECT_EQ(s[0].max_attempts, 7u);
  EXPECT_THAT(s[0].headers, ElementsAre(Pair("c", "d")));
  EXPECT_THAT(s[1].headers, ElementsAre(Pair("a", "b")));
  EXPECT_THAT(loaded.value->limits,
              ElementsAre(Limit{"a", Rate("5/s"), Burst::kWindow}, Limit{"b", Rate("6/s"), Burst::kSmooth},
                          Limit{"l", Rate("1/s"), Burst::kWindow}));
}

TEST(LoadSubscriptionsTest, FaultOfADefaultIsReportedOnce) {
  const auto fault = Only(LoadOne("defaults: { timeout: 5 }\nsubscriptions:\n" + Item("a") + Item("b")));
  EXPECT_EQ(fault.path, "defaults.timeout");
}

TEST(LoadSubscriptionsTest, UnlimitedZeroAndOwnLimits) {
  const auto loaded =
      LoadOne("subscriptions:\n" + Item("a") + Item("b", "max_rate: 0") + Item("c", "max_rate: 30/min"));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded.value->subscriptions[0].limit, "");
  EXPECT_EQ(loaded.value->subscriptions[1].limit, "b");
  EXPECT_THAT(loaded.value->limits,
              ElementsAre(Limit{"b", Rate("0"), Burst::kSmooth}, Limit{"c", Rate("30/min"), Burst::kSmooth}));
}

TEST(LoadSubscriptionsTest, LimitFaults) {
  const std::string limits = "limits: { l: { max_rate: 1/s }, a: { max_rate: 2/s } }\nsubscriptions:\n";
  EXPECT_THAT(Only(LoadOne(limits + Item("s", "limit: l, max_rate: 5/s"))).rule, HasSubstr("exclude each other"));
  EXPECT_THAT(Only(LoadOne("defaults: { limit: l, max_rate: 5/s }\n" + limits + Item("s"))).rule,
              HasSubstr("exclude each other"));
  EXPECT_THAT(Only(LoadOne(limits + Item("s", "limit: m"))).rule, HasSubstr("no such limit"));
  EXPECT_THAT(Only(LoadOne(limits + Item("a", "max_rate: 5/s"))).rule, HasSubstr("name of the shared limit"));
  EXPECT_THAT(Only(LoadOne(limits + Item("s", "limit: l") + Item("t", "limit: l, burst: window"))).rule,
              HasSubstr("sharers of a limit need the same `burst`: `s`"));
  // Another subscription's own limit is not shared.
  EXPECT_THAT(Only(LoadOne(limits + Item("s", "max_rate: 5/s") + Item("t", "limit: s"))).rule,
              HasSubstr("no such limit"));
  EXPECT_TRUE(LoadOne(limits + Item("s", "limit: l, burst: window") + Item("t", "limit: l, burst: window")));
  EXPECT_TRUE(LoadOne(limits + Item("a", "limit: a")));
}

TEST(LoadSubscriptionsTest, CrossFieldFaults) {
  EXPECT_THAT(Only(LoadOne(OneSubscription("    backoff: { initial: 2min }\n"))).rule, HasSubstr("is above `max`"));
  EXPECT_THAT(Only(LoadOne(OneSubscription("    tls: { certificate: /c }\n"))).rule, HasSubstr("need each other"));
  EXPECT_THAT(Only(LoadOne(OneSubscription("    tls: { key: /k }\n"))).rule, HasSubstr("need each other"));
  EXPECT_THAT(Only(LoadOne("subscriptions:\n" + Item("a", "tls: { ca: /c }"))).rule, HasSubstr("https"));
  EXPECT_TRUE(LoadOne("defaults: { tls: { ca: /c } }\nsubscriptions:\n" + Item("a")));
}

TEST(LoadSubscriptionsTest, Http2NeedsItsCapability) {
  const auto fault =
      Only(LoadOne(OneSubscription("    http: 2\n"), {.http2 = false, .http2_reason = "libcurl is 7.88"}));
  EXPECT_EQ(fault.rule, "not in this version: libcurl is 7.88");
  EXPECT_EQ(fault.path, "subscriptions[0].http");
  EXPECT_TRUE(LoadOne(OneSubscription("    http: 2\n"), {.http2 = true}));
}

TEST(LoadSubscriptionsTest, VariablesAndSecretFiles) {
  const auto environment =
      FakeEnvironment({{"T", "7s"}, {"EMPTY", ""}, {"PAUSED", "true"}, {"TOKEN", "tok"}, {"P", "/run/s"}},
                      {{"/run/s", "hunter2\r\n"}, {"/run/e", "\n"}});
  const auto loaded = LoadOne(
      OneSubscription("    timeout: ${T}\n    ttl: ${NONE:-3h}\n    max_in_flight: ${EMPTY:-9}\n"
                      "    paused: \"${PAUSED}\"\n"
                      "    headers: { a: 'x-${TOKEN}-y', b: file:/run/s, c: '$${T}', d: '$5', e: 'file:${P}' }\n"),
      {}, environment);
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  const Subscription& s = loaded.value->subscriptions[0];
  EXPECT_EQ(s.timeout, Milliseconds(7000));
  EXPECT_EQ(s.ttl, Milliseconds(10'800'000));
  EXPECT_EQ(s.max_in_flight, 9u);
  EXPECT_TRUE(s.paused);
  EXPECT_THAT(s.headers, ElementsAre(Pair("a", "x-tok-y"), Pair("b", "hunter2"), Pair("c", "${T}"), Pair("d", "$5"),
                                     Pair("e", "hunter2")));
  EXPECT_THAT(s.secret_headers, ElementsAre("a", "b", "e"));

  for (const char* bad : {"${NONE}", "${T", "${}", "${A B}", "${:-x}"}) {
    EXPECT_THAT(LoadOne(OneSubscription("    timeout: \"" + std::string(bad) + "\"\n"), {}, environment).faults,
                SizeIs(1))
        << bad;
  }
  EXPECT_THAT(Only(LoadOne(OneSubscription("    headers: { a: file:/run/e }\n"), {}, environment)).rule,
              HasSubstr("empty"));
  EXPECT_THAT(Only(LoadOne(OneSubscription("    headers: { a: file:/none }\n"), {}, environment)).rule,
              HasSubstr("cannot be read: No such"));
  const auto resolved = Only(LoadOne(OneSubscription("    timeout: ${PAUSED}\n"), {}, environment));
  EXPECT_EQ(resolved.value, "${PAUSED}");
  EXPECT_EQ(resolved.hint, "it is \"true\"");
}

TEST(LoadSubscriptionsTest, SecretsNeverStandInFaults) {
  const auto environment =
      FakeEnvironment({{"TOKEN", "hunter2"}, {"URL", "http://u:hunter2@x/"}}, {{"/s", "hun\nhunter2\n"}});
  const auto loaded = LoadOne(
      "subscriptions:\n"
      "  - { name: a, topic: t, endpoint: 'http://u:hunter2@x/', headers: { b: file:/s, c: \"hunter2\\n\" } }\n"
      "  - { name: b, topic: t, endpoint: '${URL}', headers: { d: [ hunter2 ], host: hunter2 }, tokn: hunter2 }\n"
      "  - { name: c, topic: t, endpoint: 'http://x/', headers: 'hunter2' }\n",
      {}, environment);
  EXPECT_THAT(loaded.faults, SizeIs(8)) << ToString(loaded.faults);
  EXPECT_THAT(ToString(loaded.faults), Not(HasSubstr("hunter2")));
}

TEST(LoadSubscriptionsTest, SeveralDocumentsAreOneRevision) {
  const std::map<std::string, std::string> files{
      {"a.yaml", "instances: 2\ndefaults: { ttl: 2h }\nsubscriptions:\n" + Item("a", "limit: l")},
      {"b.json",
       R"({"limits": {"l": {"max_rate": "5/s"}}, "subscriptions": [{"name": "b", "topic": "t", "endpoint": "http://x/", "max_in_flight": 5}]})"},
      {"c.yaml", "subscriptions:\n" + Item("c") + "---\nsubscriptions:\n" + Item("d")}};
  const auto loaded = LoadSubscriptions(files);
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  EXPECT_THAT(loaded.value->subscriptions, SizeIs(4));
  for (const Subscription& s : loaded.value->subscriptions) EXPECT_EQ(s.ttl, Milliseconds(7'200'000));
  EXPECT_EQ(loaded.value->subscriptions[0].limit, "l");
  EXPECT_EQ(loaded.value->instances, 2u);
}

TEST(LoadSubscriptionsTest, OnceOnlyKeysAndNamesAcrossDocuments) {
  const std::string one =
      "instances: 2\neffective_at: 2026-11-21T08:15:30Z\nallow_empty: true\ndefaults: { ttl: 2h }\nlimits: { l: { "
      "max_rate: 1/s } }\nsubscriptions:\n" +
      Item("a");
  const auto loaded = LoadSubscriptions({{"a.yaml", one}, {"b.yaml", one}});
  EXPECT_THAT(loaded.faults, SizeIs(6)) << ToString(loaded.faults);
  for (const Fault& fault : loaded.faults) {
    EXPECT_EQ(fault.file, "b.yaml");
    EXPECT_THAT(fault.rule, HasSubstr("a.yaml:"));
  }
}

TEST(LoadSubscriptionsTest, EffectiveAtIsAWholeSecond) {
  const auto at = [](const std::string& text) {
    return LoadOne(OneSubscription("", "effective_at: " + text + "\n")).value->effective_at;
  };
  EXPECT_EQ(LoadOne(OneSubscription("")).value->effective_at, std::nullopt);
  EXPECT_EQ(at("'${NONE:-}'"), std::nullopt);
  EXPECT_EQ(at("2026-11-21T08:15:30Z"), ratelimit::StartOf(1'795'248'930));
  EXPECT_EQ(at("'2026-11-21T09:15:29.001+01:00'"), ratelimit::StartOf(1'795'248'930)) << "the next one";
}

TEST(LoadSubscriptionsTest, DigestIsOfNamesAndBytes) {
  EXPECT_EQ(Digest({{"a", "x"}}), Digest({{"a", "x"}}));
  EXPECT_NE(Digest({{"a", "x"}}), Digest({{"b", "x"}}));
  EXPECT_NE(Digest({{"a", "x"}}), Digest({{"a", "y"}}));
  EXPECT_NE(Digest({{"a", "xb"}}), Digest({{"a", "x"}, {"b", ""}}));
  EXPECT_NE(Digest({{"ab", ""}}), Digest({{"a", "b"}}));
}

TEST(LoadSubscriptionsTest, AnchorsServe) {
  const auto loaded = LoadOne(
      "subscriptions:\n  - &a { name: a, topic: t, endpoint: 'http://x/', ttl: 5s }\n  - { <<: *a, name: b }\n");
  ASSERT_TRUE(loaded) << ToString(loaded.faults);
  EXPECT_EQ(loaded.value->subscriptions[1].ttl, Milliseconds(5000));
}

TEST(LoadSubscriptionsTest, ThousandsAreLoaded) {
  std::string text = "subscriptions:\n";
  for (int i = 0; i < 2000; ++i) text += Item("s" + std::to_string(i), "max_rate: 5/s");
  const auto loaded = LoadOne(text);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded.value->limits, SizeIs(2000));
}

}  // namespace
}  // namespace posthorn::config
