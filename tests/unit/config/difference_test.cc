#include "config/difference.h"

#include <gmock/gmock.h>

#include "config/effective.h"
#include "tests/unit/config/config_fixture.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Snapshot Load(const std::string& text) {
  auto loaded = LoadOne(text);
  EXPECT_TRUE(loaded) << ToString(loaded.faults);
  return loaded ? std::move(*loaded.value) : Snapshot();
}

TEST(DifferenceTest, NothingDiffersFromItself) {
  const auto one = Load(OneSubscription("    max_rate: 5/s\n", "instances: 3\n"));
  EXPECT_EQ(DifferenceText(one, one), "");
  EXPECT_EQ(DifferenceText(EffectiveYaml(one), one), "");
}

TEST(DifferenceTest, NamesWhatIsAddedRemovedAndChanged) {
  const auto before = Load(
      "instances: 3\nlimits: { acme: { max_rate: 800/s } }\nsubscriptions:\n"
      "  - { name: audit, topic: t, endpoint: 'http://a/', limit: acme }\n"
      "  - { name: billing, topic: t, endpoint: 'http://b/', max_rate: 500/s, backoff: { max: 30s } }\n"
      "  - { name: old, topic: t, endpoint: 'http://o/' }\n");
  const auto after = Load(
      "instances: 5\nlimits: { acme: { max_rate: 900/s } }\nsubscriptions:\n"
      "  - { name: audit, topic: t, endpoint: 'http://a/', limit: acme }\n"
      "  - { name: billing, topic: t, endpoint: 'http://b/', max_rate: 300/s, paused: true }\n"
      "  - { name: invoices, topic: t, endpoint: 'http://i/', max_rate: 7/s, ordering: key }\n");
  EXPECT_EQ(DifferenceText(before, after),
            "~ instances: 3 -> 5\n"
            "~ limits.acme.max_rate: 800/s -> 900/s\n"
            "~ billing\n"
            "    backoff.max: 30s -> 1min\n"
            "    max_rate: 500/s -> 300/s\n"
            "    paused: false -> true\n"
            "+ invoices\n"
            "    endpoint: http://i/\n"
            "    max_rate: 7/s\n"
            "    ordering: key\n"
            "    topic: t\n"
            "- old\n");
  EXPECT_EQ(DifferenceText(EffectiveYaml(before), after), DifferenceText(before, after));
}

TEST(DifferenceTest, AnotherSecretIsToldAndNeverShown) {
  const auto with = [](const std::string& secret) {
    return Load(OneSubscription("    headers: { authorization: " + secret + ", x-tenant: acme }\n"));
  };
  const auto text = DifferenceText(with("hunter2"), with("hunter3"));
  EXPECT_EQ(text, "~ billing\n    headers.authorization: *** -> *** (another value)\n");
  EXPECT_EQ(DifferenceText(EffectiveYaml(with("hunter2")), with("hunter3")), "");
  EXPECT_EQ(DifferenceText(with("hunter2"), with("hunter2")), "");
}

TEST(DifferenceTest, AHeaderThatComesOrGoesIsNamed) {
  const auto without = Load(OneSubscription(""));
  const auto with = Load(OneSubscription("    headers: { x-tenant: acme, x-token: abc }\n"));
  EXPECT_THAT(DifferenceText(without, with), HasSubstr("headers.x-tenant: unset -> acme"));
  EXPECT_THAT(DifferenceText(with, without), HasSubstr("headers.x-tenant: acme -> unset"));
  EXPECT_THAT(DifferenceText(without, with) + DifferenceText(with, without), Not(HasSubstr("abc")));
}

}  // namespace
}  // namespace posthorn::config
