#include "worker/cli/document_change.h"

#include <gmock/gmock.h>

#include "config/difference.h"
#include "config/rfc3339.h"
#include "worker/cli/document_edit.h"

namespace posthorn::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

constexpr runtime::WallTime kNow{std::chrono::hours(24 * 365 * 50)};

std::string One(const std::string& name, const std::string& keys = {}) {
  return "subscriptions:\n  - name: " + name + "\n    topic: orders\n    endpoint: http://x/\n" + keys;
}

config::Environment NoFiles() {
  return {[](const std::string&) { return std::optional<std::string>(); },
          [](const std::string&, std::string* why) {
            *why = "No such file";
            return std::optional<std::string>();
          }};
}

JudgedChange Try(const Documents& in_force, const ChangeRequest& request) {
  return Judge(in_force, request, {}, kNow, NoFiles());
}

TEST(DocumentChangeTest, IsJudgedAgainstAllOtherDocuments) {
  const Documents in_force{{"a.yaml", One("a")}, {"b.yaml", One("b")}};
  const auto twice = Try(in_force, {{{"c.yaml", One("b")}}, "", {}});
  ASSERT_FALSE(twice.faults.empty());
  EXPECT_THAT(config::ToString(twice.faults), HasSubstr("c.yaml"));
  const auto moved = Try(in_force, {{{"c.yaml", One("b")}, {"b.yaml", std::nullopt}}, "", {}});
  EXPECT_THAT(moved.faults, IsEmpty());
  EXPECT_THAT(moved.changes, ElementsAre(Key("b.yaml"), Key("c.yaml")));
  EXPECT_THAT(moved.documents, ElementsAre(Key("a.yaml"), Key("c.yaml")));
  ASSERT_TRUE(moved.after);
  EXPECT_EQ(moved.after->subscriptions.size(), 2u);
}

TEST(DocumentChangeTest, AFileOfAnyNameIsADocument) {
  EXPECT_EQ(DocumentNameFor("a.yaml"), "a.yaml");
  EXPECT_EQ(DocumentNameFor("a.json"), "a.json");
  EXPECT_EQ(DocumentNameFor("billing"), "billing.yaml");
  EXPECT_EQ(DocumentNameFor("tmp.x81Kq"), "tmp.x81Kq.yaml");
  for (const char* none : {"", ".hidden", "a b", "a/b", "ü"}) EXPECT_EQ(DocumentNameFor(none), "") << none;
}

TEST(DocumentChangeTest, AnEffectiveAtFarAheadIsNoted) {
  const auto notes = [](std::chrono::minutes ahead) {
    ChangeRequest request{{{"a.yaml", One("a")}}, "", kNow + ahead};
    return Try({}, request).notes;
  };
  EXPECT_THAT(notes(std::chrono::minutes(9)), IsEmpty());
  EXPECT_THAT(notes(std::chrono::minutes(11)), ElementsAre(HasSubstr("`cache`")));
}

TEST(DocumentChangeTest, AllOfTheFirstDocumentIsNew) {
  const auto judged = Try({}, {{{"a.yaml", One("a", "    max_rate: 7/s\n")}}, "", {}});
  ASSERT_TRUE(judged.before && judged.after);
  EXPECT_THAT(config::DifferenceText(*judged.before, *judged.after),
              AllOf(HasSubstr("+ a\n"), HasSubstr("max_rate: 7/s"), Not(HasSubstr("~"))));
}

TEST(DocumentChangeTest, WhatIsAsItWasIsNotWritten) {
  const Documents in_force{{"a.yaml", One("a")}, {"b.yaml", One("b")}};
  const auto judged = Try(in_force, {{{"a.yaml", One("a")}, {"b.yaml", One("b", "    paused: true\n")}}, "", {}});
  EXPECT_THAT(judged.changes, ElementsAre(Key("b.yaml")));
}

TEST(DocumentChangeTest, AnotherRevisionThanExpectedIsAConflict) {
  const Documents in_force{{"a.yaml", One("a")}, {"b.yaml", One("b")}};
  const ChangeRequest base{{{"a.yaml", One("a", "    paused: true\n")}}, "", {}};
  const auto with = [&](const std::string& expect) {
    ChangeRequest request = base;
    request.expect = expect;
    return Try(in_force, request).conflict;
  };
  EXPECT_EQ(with(DocumentRevision("a.yaml", One("a"))), "");
  EXPECT_EQ(with(config::Digest(in_force)), "");
  EXPECT_THAT(with("0123456789abcdef"), HasSubstr("somebody has changed it"));
  EXPECT_THAT(with("none"), HasSubstr("somebody has changed it"));
  EXPECT_EQ(Try(in_force, {{{"c.yaml", One("c")}}, "none", {}}).conflict, "");
  EXPECT_THAT(Try(in_force, {{{"c.yaml", One("c")}}, "0123456789abcdef", {}}).conflict, HasSubstr("not there"));
  EXPECT_THAT(Try(in_force, {{{"c.yaml", One("c")}, {"d.yaml", One("d")}}, "0123", {}}).conflict,
              HasSubstr("revision of all"));
}

TEST(DocumentChangeTest, RemovingWhatIsNotThereOrTheLastOneIsRefused) {
  const Documents in_force{{"a.yaml", One("a")}};
  EXPECT_THAT(Try(in_force, {{{"b.yaml", std::nullopt}}, "", {}}).conflict, HasSubstr("no document b.yaml"));
  const auto last = Try(in_force, {{{"a.yaml", std::nullopt}}, "", {}});
  EXPECT_THAT(config::ToString(last.faults), HasSubstr("allow_empty"));
  EXPECT_FALSE(last.after);
}

TEST(DocumentChangeTest, AFileThatOnlyWorkersHaveIsNoted) {
  const auto judged = Try({}, {{{"a.yaml", One("a", "    headers: { authorization: file:/run/x }\n")}}, "", {}});
  EXPECT_THAT(judged.faults, IsEmpty());
  EXPECT_THAT(judged.notes, ElementsAre(HasSubstr("/run/x")));
}

TEST(DocumentChangeTest, WhatIsBrokenAlreadyCanBeMended) {
  const Documents in_force{{"a.yaml", One("a", "    colour: red\n")}, {"b.yaml", One("b")}};
  const auto judged = Try(in_force, {{{"a.yaml", One("a")}}, "", {}});
  EXPECT_THAT(judged.faults, IsEmpty());
  EXPECT_FALSE(judged.before);
  EXPECT_TRUE(judged.after);
}

TEST(DocumentChangeTest, TheInstantIsWrittenIntoTheDocumentThatIsPut) {
  ChangeRequest request{{{"b.yaml", One("b")}}, "", kNow + std::chrono::milliseconds(4'500)};
  const auto judged = Try({{"a.yaml", One("a")}}, request);
  ASSERT_THAT(judged.faults, IsEmpty());
  EXPECT_EQ(config::ParseRfc3339(EffectiveAtOf(judged.documents.at("b.yaml"))), kNow + std::chrono::seconds(5));
  EXPECT_EQ(judged.after->effective_at, kNow + std::chrono::seconds(5));
  // Another one that is still to come stands against it.
  const auto second = Try(judged.documents, {{{"c.yaml", One("c")}}, "", kNow + std::chrono::seconds(9)});
  EXPECT_THAT(config::ToString(second.faults), HasSubstr("effective_at"));
}

TEST(DocumentChangeTest, AnInstantThatHasPassedIsTakenOutWithTheNextChange) {
  const auto passed = config::FormatRfc3339(kNow - std::chrono::seconds(5));
  const Documents in_force{{"a.yaml", *WithEffectiveAt(One("a"), passed)}, {"b.yaml", One("b")}};
  const auto judged = Try(in_force, {{{"b.yaml", One("b", "    paused: true\n")}}, "", {}});
  EXPECT_THAT(judged.changes, ElementsAre(Key("a.yaml"), Key("b.yaml")));
  EXPECT_EQ(judged.documents.at("a.yaml"), One("a"));
  EXPECT_THAT(judged.notes, ElementsAre(HasSubstr("a.yaml has passed")));
  EXPECT_THAT(Try(in_force, {{{"b.yaml", One("b")}}, "", {}}).changes, IsEmpty());
}

TEST(DocumentChangeTest, SubscriptionsOfADocumentAreFoundAlsoInABrokenOne) {
  EXPECT_THAT(SubscriptionsIn(One("a") + "  - { name: b, colour: red }\n"), ElementsAre("a", "b"));
  EXPECT_THAT(SubscriptionsIn("{"), IsEmpty());
  EXPECT_THAT(SubscriptionsIn("instances: 3\n"), IsEmpty());
}

}  // namespace
}  // namespace posthorn::cli
