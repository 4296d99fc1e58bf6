#include "worker/cli/document_edit.h"

#include <gtest/gtest.h>

#include <vector>

namespace posthorn::cli {
namespace {

constexpr const char* kTime = "2026-11-21T08:15:30.000Z";

TEST(DocumentEditTest, TheInstantIsWrittenAndCommentsStay) {
  EXPECT_EQ(WithEffectiveAt("# ours\ninstances: 3\nsubscriptions: []\n", kTime),
            "# ours\neffective_at: \"2026-11-21T08:15:30.000Z\"\ninstances: 3\nsubscriptions: []\n");
  EXPECT_EQ(WithEffectiveAt("{ \"subscriptions\": [] }", kTime),
            "{\"effective_at\": \"2026-11-21T08:15:30.000Z\",  \"subscriptions\": [] }");
  EXPECT_EQ(WithEffectiveAt("---\n  a: 1 # one\n  b: 2\n", kTime),
            "---\n  effective_at: \"2026-11-21T08:15:30.000Z\"\n  a: 1 # one\n  b: 2\n");
}

TEST(DocumentEditTest, AnEarlierInstantIsReplaced) {
  for (const char* old_value : {"2026-01-01T00:00:00Z", "\"2026-01-01T00:00:00Z\"", "'2026-01-01T00:00:00Z'"}) {
    EXPECT_EQ(WithEffectiveAt("a: 1\neffective_at: " + std::string(old_value) + " # then\nb: 2\n", kTime),
              "a: 1\neffective_at: \"2026-11-21T08:15:30.000Z\" # then\nb: 2\n");
  }
  EXPECT_EQ(WithEffectiveAt("{\"\xc3\xa4\": 1, \"effective_at\": \"x\"}", kTime),
            "{\"\xc3\xa4\": 1, \"effective_at\": \"2026-11-21T08:15:30.000Z\"}");
}

TEST(DocumentEditTest, WhatHasNoPlaceForItIsLeftAlone) {
  for (const char* text : {"", "# nothing\n", "- a\n- b\n", "{ broken", "text\n"}) {
    EXPECT_EQ(WithEffectiveAt(text, kTime), std::nullopt) << text;
  }
}

TEST(DocumentEditTest, TheInstantIsTakenOutAgain) {
  EXPECT_EQ(WithoutEffectiveAt("a: 1\neffective_at: 2026-01-01T00:00:00Z # then\nb: 2\n"), "a: 1\nb: 2\n");
  EXPECT_EQ(WithoutEffectiveAt("a: 1\nb: 2\n"), "a: 1\nb: 2\n");
  const std::vector<std::string> texts{"# c\na: 1\nsubscriptions: []\n", "{ \"a\": [1, 2], \"b\": {} }",
                                       "  a: x\n  b: y\n"};
  for (const auto& text : texts) {
    const auto with = WithEffectiveAt(text, kTime);
    ASSERT_TRUE(with) << text;
    EXPECT_EQ(EffectiveAtOf(*with), kTime);
    const auto without = WithoutEffectiveAt(*with);
    ASSERT_TRUE(without) << *with;
    EXPECT_EQ(EffectiveAtOf(*without), "");
  }
}

}  // namespace
}  // namespace posthorn::cli
