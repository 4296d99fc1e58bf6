#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/fault.h"

namespace posthorn::config {

/// One value of a YAML or JSON document, with its place. Aliases are resolved, merge keys (`<<`) applied.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Key {
    std::string text;
    int line = 0;
    int column = 0;
  };

  Kind kind = Kind::kNull;
  std::string text;         // of a scalar
  bool quoted = false;      // a scalar that is text whatever it looks like
  std::string file;         // set by overrides where it differs from the document's; empty otherwise
  int line = 0;             // from 1
  int column = 0;           // from 1
  std::vector<Key> keys;    // of a map, in the document's order; keys[i] belongs to items[i]
  std::vector<Node> items;  // of a list or map

  /// The value under `key`, or null.
  [[nodiscard]] const Node* Find(std::string_view key) const;
  Node* Find(std::string_view key);
};

/// Bounds against documents that are made to exhaust: a document that passes one is refused.
inline constexpr int kMaxNesting = 32;
inline constexpr std::size_t kMaxNodes = 500'000;  // aliases count as what they stand for

/// Reads every document of a stream (`---` separates them); one without content is left out.
///
/// Errors  Syntax errors, duplicate keys and passed bounds are added to `faults`; what could be read is returned. Never
///         throws.
std::vector<Node> ParseDocuments(std::string_view file, std::string_view text, std::vector<Fault>& faults);

}  // namespace posthorn::config
