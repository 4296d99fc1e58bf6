#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <string>
#include <vector>

#include "config/document.h"

namespace posthorn::config {

/// As much of JSON Schema 2020-12 as our own schemas use, over the nodes of this room's YAML parser. A keyword it does
/// not know fails the test.
class JsonSchemaCheck {
 public:
  explicit JsonSchemaCheck(const std::string& text) {
    std::vector<Fault> faults;
    auto documents = ParseDocuments("schema.json", text, faults);
    EXPECT_TRUE(faults.empty()) << ToString(faults);
    EXPECT_EQ(documents.size(), 1u);
    if (!documents.empty()) schema_ = std::move(documents.front());
  }

  /// Empty: the document is accepted. Else where it is not.
  std::string Refusal(const std::string& document) const {
    std::vector<Fault> faults;
    const auto documents = ParseDocuments("document", document, faults);
    if (!faults.empty()) return ToString(faults);
    for (const Node& root : documents) {
      if (auto why = Check(schema_, root, ""); !why.empty()) return why;
    }
    return {};
  }

 private:
  static bool IsNumber(const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    return !text.empty() && std::from_chars(text.data(), end, value).ptr == end && text != "inf" && text != "nan";
  }
  static double NumberOf(const Node& node) {
    double value = 0;
    std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
    return value;
  }
  // YAML's core types.
  static std::string TypeOf(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kNull:
        return "null";
      case Node::Kind::kList:
        return "array";
      case Node::Kind::kMap:
        return "object";
      case Node::Kind::kScalar:
        break;
    }
    if (node.quoted) return "string";
    if (node.text == "true" || node.text == "false") return "boolean";
    if (!IsNumber(node.text)) return "string";
    return NumberOf(node) == static_cast<double>(static_cast<long long>(NumberOf(node))) ? "integer" : "number";
  }
  static bool Equal(const Node& a, const Node& b) {
    const std::string type = TypeOf(a);
    if (type == "integer" || type == "number") return !b.quoted && IsNumber(b.text) && NumberOf(a) == NumberOf(b);
    return type == TypeOf(b) && a.text == b.text;
  }

  std::string Check(const Node& schema, const Node& node, const std::string& at) const {
    const auto refuse = [&](const std::string& rule) { return (at.empty() ? "/" : at) + ": " + rule; };
    const std::string type = TypeOf(node);
    const bool number = type == "integer" || type == "number";
    for (std::size_t i = 0; i < schema.items.size(); ++i) {
      const std::string& keyword = schema.keys[i].text;
      const Node& rule = schema.items[i];
      const auto fits = [&](const Node& one) { return Check(one, node, at).empty(); };
      const auto is_type = [&](const std::string& name) { return name == type || (name == "number" && number); };
      const auto matches = [&] { return std::count_if(rule.items.begin(), rule.items.end(), fits); };
      bool good = true;
      std::string deeper;
      if (keyword == "type") {
        good = rule.kind == Node::Kind::kScalar
                   ? is_type(rule.text)
                   : std::any_of(rule.items.begin(), rule.items.end(), [&](const Node& n) { return is_type(n.text); });
      } else if (keyword == "enum") {
        good = std::any_of(rule.items.begin(), rule.items.end(), [&](const Node& n) { return Equal(n, node); });
      } else if (keyword == "const") {
        good = Equal(rule, node);
      } else if (keyword == "anyOf") {
        good = matches() > 0;
      } else if (keyword == "oneOf") {
        good = matches() == 1;
      } else if (keyword == "not") {
        good = !fits(rule);
      } else if (keyword == "pattern") {
        good = type != "string" || std::regex_search(node.text, std::regex(rule.text));
      } else if (keyword == "minLength") {
        good = type != "string" || node.text.size() >= static_cast<std::size_t>(NumberOf(rule));
      } else if (keyword == "minimum") {
        good = !number || NumberOf(node) >= NumberOf(rule);
      } else if (keyword == "maximum") {
        good = !number || NumberOf(node) <= NumberOf(rule);
      } else if (keyword == "maxProperties") {
        good = type != "object" || node.keys.size() <= static_cast<std::size_t>(NumberOf(rule));
      } else if (keyword == "required") {
        good = type != "object" || std::all_of(rule.items.begin(), rule.items.end(),
                                               [&](const Node& n) { return node.Find(n.text) != nullptr; });
      } else if (keyword == "propertyNames") {
        for (const Node::Key& key : node.keys) {
          const std::regex pattern(rule.Find("pattern")->text);
          good = good && (type != "object" || std::regex_search(key.text, pattern));
        }
      } else if (keyword == "properties") {
        for (std::size_t k = 0; type == "object" && k < node.keys.size() && deeper.empty(); ++k) {
          const Node* one = rule.Find(node.keys[k].text);
          if (one != nullptr) deeper = Check(*one, node.items[k], at + "/" + node.keys[k].text);
        }
      } else if (keyword == "additionalProperties") {
        const Node* known = schema.Find("properties");
        for (std::size_t k = 0; type == "object" && k < node.keys.size() && deeper.empty(); ++k) {
          const std::string below = at + "/" + node.keys[k].text;
          if (known != nullptr && known->Find(node.keys[k].text) != nullptr) continue;
          deeper = rule.text == "false" ? below + ": additionalProperties" : Check(rule, node.items[k], below);
        }
      } else if (keyword == "items") {
        for (std::size_t k = 0; type == "array" && k < node.items.size() && deeper.empty(); ++k) {
          deeper = Check(rule, node.items[k], at + "/" + std::to_string(k));
        }
      } else {
        const bool told =
            keyword == "description" || keyword == "default" || keyword == "title" || keyword == "$schema";
        EXPECT_TRUE(told) << "unknown keyword " << keyword;
      }
      if (!deeper.empty()) return deeper;
      if (!good) return refuse(keyword);
    }
    return {};
  }

  Node schema_;
};

}  // namespace posthorn::config
