#include "config/document.h"

#include <gmock/gmock.h>

#include "config/load.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Fault> FaultsOf(const std::string& text) {
  std::vector<Fault> faults;
  ParseDocuments("f.yaml", text, faults);
  return faults;
}

Node Only(const std::string& text) {
  std::vector<Fault> faults;
  std::vector<Node> documents = ParseDocuments("f.yaml", text, faults);
  EXPECT_THAT(faults, IsEmpty()) << ToString(faults);
  EXPECT_THAT(documents, SizeIs(1));
  return documents.empty() ? Node() : documents.front();
}

TEST(DocumentTest, KeepsOrderPlacesAndQuotes) {
  const Node root = Only("a: 1\nb:\n  - 'x'\n  - y\n");
  ASSERT_EQ(root.kind, Node::Kind::kMap);
  EXPECT_EQ(root.keys[1].text, "b");
  EXPECT_EQ(root.keys[1].line, 2);
  const Node* list = root.Find("b");
  ASSERT_NE(list, nullptr);
  EXPECT_TRUE(list->items[0].quoted);
  EXPECT_EQ(list->items[0].line, 3);
  EXPECT_EQ(list->items[0].column, 5);
  EXPECT_FALSE(list->items[1].quoted);
}

TEST(DocumentTest, JsonIsYaml) {
  const Node root = Only(R"({"a": {"b": [1, "x\n", null, true]}})");
  const Node* list = root.Find("a")->Find("b");
  ASSERT_THAT(list->items, SizeIs(4));
  EXPECT_EQ(list->items[1].text, "x\n");
  EXPECT_EQ(list->items[2].kind, Node::Kind::kNull);
}

TEST(DocumentTest, StreamHoldsSeveralDocuments) {
  std::vector<Fault> faults;
  EXPECT_THAT(ParseDocuments("f", "a: 1\n---\n---\nb: 2\n", faults), SizeIs(2));
  EXPECT_THAT(ParseDocuments("f", "", faults), IsEmpty());
  EXPECT_THAT(ParseDocuments("f", "# nothing\n", faults), IsEmpty());
  EXPECT_THAT(faults, IsEmpty());
}

TEST(DocumentTest, AliasesAndMergeKeys) {
  const Node root = Only("base: &b { x: 1, y: 2 }\nsame: *b\nmore: { <<: *b, y: 3 }\nboth: { <<: [ *b, { z: 9 } ] }\n");
  EXPECT_EQ(root.Find("same")->Find("x")->text, "1");
  EXPECT_EQ(root.Find("more")->Find("x")->text, "1");
  EXPECT_EQ(root.Find("more")->Find("y")->text, "3");
  EXPECT_EQ(root.Find("both")->Find("z")->text, "9");
}

TEST(DocumentTest, DuplicateKeyIsAFaultAtTheSecond) {
  const auto faults = FaultsOf("a: 1\nb: { c: 1, d: 2, c: 3 }\na: 2\n");
  ASSERT_THAT(faults, SizeIs(2));
  EXPECT_EQ(faults[0].path, "c");
  EXPECT_EQ(faults[0].line, 2);
  EXPECT_EQ(faults[1].line, 3);
  EXPECT_THAT(faults[1].rule, HasSubstr("twice"));
}

TEST(DocumentTest, SyntaxErrorsHavePlaces) {
  for (const char* text : {"a: [1, 2", "a: b: c", "a: \"open", "\tx: 1\na", "a: *nobody", "{", "a: 1\n b: 2\n",
                           "? [a]\n: b", "- a\nb: c\n", "%YAML 9.9\n---\na: }", "a: !<tag:x\n"}) {
    const auto faults = FaultsOf(text);
    ASSERT_FALSE(faults.empty()) << text;
    EXPECT_GT(faults.front().line, 0) << text;
  }
}

TEST(DocumentTest, NestingIsBounded) {
  const std::string deep(kMaxNesting, '[');
  EXPECT_THAT(FaultsOf(deep + std::string(kMaxNesting, ']')), IsEmpty());
  const auto faults = FaultsOf("[" + deep + std::string(kMaxNesting + 1, ']'));
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].rule, HasSubstr("nested too deeply"));
  EXPECT_FALSE(FaultsOf(std::string(200'000, '[')).empty());
  EXPECT_FALSE(FaultsOf(std::string(200'000, '{')).empty());
  std::string blocks;
  for (int i = 0; i < 1000; ++i) blocks += "- ";
  EXPECT_FALSE(FaultsOf(blocks).empty());
}

TEST(DocumentTest, AliasesCannotMultiplyWithoutEnd) {
  std::string text = "a: &a [1,1,1,1,1,1,1,1,1,1]\n";
  for (char c = 'b'; c <= 'k'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    text += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) text += (i > 0 ? ",*" : "*") + before;
    text += "]\n";
  }
  const auto faults = FaultsOf(text);
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].rule, HasSubstr("too large"));
  EXPECT_THAT(FaultsOf("a: &a [ *a ]"), SizeIs(1));
}

TEST(DocumentTest, SizeIsBounded) {
  const auto faults = FaultsOf(std::string(kMaxDocumentBytes + 1, ' '));
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].rule, HasSubstr("16MiB"));
}

TEST(DocumentTest, ArbitraryBytesNeverThrow) {
  std::uint32_t state = 12345;
  const std::string alphabet("{}[]:,-?&*!|>'\"%@`#\n\t ab01~<=\x00\xff\xc3\x80", 33);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525u + 1013904223u;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    std::vector<Fault> faults;
    EXPECT_NO_THROW(ParseDocuments("f", text, faults)) << text;
    EXPECT_NO_THROW(LoadSubscriptions({{"f", text}}));
    EXPECT_NO_THROW(LoadDeploymentText("f", text));
  }
}

TEST(FaultTest, IsOneLine) {
  EXPECT_EQ(ToString(Fault{"s.yaml", 12, 14, "subscriptions[2].timeout", "5", "needs a unit", "write 5s"}),
            "s.yaml:12:14: subscriptions[2].timeout: \"5\": needs a unit (write 5s)");
  EXPECT_EQ(ToString(Fault{"s.yaml", 0, 0, "", "a\nb\x01", "no", ""}), "s.yaml: \"a\\nb?\": no");
  // What the YAML parser says may quote the file.
  EXPECT_EQ(ToString(Fault{"s.yaml", 1, 1, "", "", "unknown escape \n", ""}), "s.yaml:1:1: unknown escape \\n");
}

}  // namespace
}  // namespace posthorn::config
