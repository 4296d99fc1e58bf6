#include "config/sources/json_answer.h"

#include <gmock/gmock.h>

#include <boost/json/value.hpp>

namespace posthorn::config {
namespace {

TEST(JsonAnswerTest, MembersOfTheWrongTypeAreAbsent) {
  const auto value = ParseJson(R"({"a":1,"b":"2","c":true,"d":"x","e":1.5,"f":"9223372036854775807","g":""})");
  ASSERT_TRUE(value);
  EXPECT_EQ(NumberMember(*value, "a"), 1);
  EXPECT_EQ(NumberMember(*value, "b"), 2);
  EXPECT_EQ(NumberMember(*value, "f"), INT64_MAX);
  for (const char* key : {"c", "d", "e", "g", "none"}) EXPECT_EQ(NumberMember(*value, key), std::nullopt) << key;
  EXPECT_EQ(TextMember(*value, "d"), "x");
  EXPECT_EQ(TextMember(*value, "a"), "");
  EXPECT_TRUE(TrueMember(*value, "c"));
  EXPECT_FALSE(TrueMember(*value, "a"));
  EXPECT_EQ(Member(*Member(*value, "a"), "a"), nullptr);
  EXPECT_FALSE(ParseJson("{} {}"));
  EXPECT_FALSE(ParseJson(std::string(65, '[') + std::string(65, ']')));
}

TEST(JsonAnswerTest, DocumentsAreReadableAndKeepTheirNumbers) {
  const std::string document =
      "{\n  \"a\": [\n    1,\n    -2,\n    true,\n    null\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": "
      "\"\\\"\\n\"\n}\n";
  EXPECT_EQ(ToDocument(*ParseJson(R"({"a":[1,-2,true,null],"b":{},"c":[],"d":"\"\n"})")), document);
  EXPECT_EQ(ToDocument(*ParseJson(document)), document);
  for (int i = 1; i < 1000; ++i) {
    if (i % 10 == 0) continue;
    const std::string digits = std::to_string(i);
    const std::string number = std::to_string(i / 10) + "." + digits.back();
    EXPECT_EQ(ToDocument(*ParseJson(number)), number + "\n");
  }
}

TEST(JsonAnswerTest, WhatServersSayIsCutAndCleaned) {
  EXPECT_EQ(ShownText("a\nb\r\x1b[31m"), "a b  [31m");
  EXPECT_EQ(ShownText(std::string(300, 'x')), std::string(200, 'x') + "...");
}

}  // namespace
}  // namespace posthorn::config
