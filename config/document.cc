#include "config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "config/load.h"

namespace posthorn::config {
namespace {

struct BoundPassed {
  YAML::Mark mark;
  const char* rule;
};

// Builds nodes from the parser's events: its own tree forgets duplicate keys and the places of keys.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string_view file, std::string_view text, std::vector<Fault>& faults)
      : file_(file), rest_(text), faults_(faults) {}

  std::vector<Node> TakeDocuments() { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // The parser takes what it cannot place in a document for the next one, and a stray `,` for documents without end.
    if (started_ && !BeginsDocument(mark)) {
      throw BoundPassed{mark, "does not belong to the text above: check indentation and brackets"};
    }
    started_ = true;
    open_.clear();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(At(mark, Node::Kind::kNull), mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    // A node that holds itself has no end: its anchor is known only once it is complete.
    if (found == anchors_.end()) throw BoundPassed{mark, "an alias must stand after the node it names, not inside it"};
    Count(found->second.size, mark);
    if (static_cast<int>(open_.size()) + found->second.depth > kMaxNesting) throw BoundPassed{mark, kTooDeep};
    Node copy = found->second.node;
    Place(std::move(copy), mark, found->second.size, found->second.depth);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = At(mark, Node::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    const bool plain_null = !node.quoted && (value == "~" || value == "null" || value == "Null" || value == "NULL");
    if (plain_null) node = At(mark, Node::Kind::kNull);
    Add(std::move(node), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(At(mark, Node::Kind::kList), mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(At(mark, Node::Kind::kMap), mark, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  static constexpr const char* kTooDeep = "nested too deeply: at most 32 levels";

  struct Anchor {
    Node node;
    std::size_t size = 1;
    int depth = 0;
  };
  struct OpenNode {
    Node node;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    std::size_t size = 1;
    int depth = 1;
    bool key_next = true;  // of a map
  };

  static Node At(const YAML::Mark& mark, Node::Kind kind) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  bool BeginsDocument(const YAML::Mark& mark) {
    for (; line_ < mark.line && !rest_.empty(); ++line_) {
      rest_.remove_prefix(std::min(rest_.size(), rest_.find('\n')));
      rest_.remove_prefix(std::min<std::size_t>(rest_.size(), 1));
    }
    return mark.column == 0 && rest_.starts_with("---");
  }

  void Count(std::size_t nodes, const YAML::Mark& mark) {
    count_ += nodes;
    if (count_ > kMaxNodes) throw BoundPassed{mark, "too large: more than 500000 values, aliases counted in full"};
  }

  void Open(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    Count(1, mark);
    if (open_.size() >= kMaxNesting) throw BoundPassed{mark, kTooDeep};
    open_.push_back({std::move(node), mark, anchor});
  }

  void Close() {
    OpenNode done = std::move(open_.back());
    open_.pop_back();
    if (done.node.kind == Node::Kind::kMap) FinishMap(done.node);
    if (done.anchor != 0) anchors_[done.anchor] = {done.node, done.size, done.depth};
    Place(std::move(done.node), done.mark, done.size, done.depth);
  }

  void Add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    Count(1, mark);
    if (anchor != 0) anchors_[anchor] = {node, 1, 0};
    Place(std::move(node), mark, 1, 0);
  }

  void Place(Node node, const YAML::Mark& mark, std::size_t size, int depth) {
    if (open_.empty()) {
      if (node.kind != Node::Kind::kNull) documents_.push_back(std::move(node));
      return;
    }
    OpenNode& parent = open_.back();
    parent.size += size;
    parent.depth = std::max(parent.depth, depth + 1);
    if (parent.node.kind == Node::Kind::kList) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    if (parent.key_next) {
      if (node.kind == Node::Kind::kList || node.kind == Node::Kind::kMap) {
        faults_.push_back({file_, mark.line + 1, mark.column + 1, "", "", "a key must be text", ""});
      }
      parent.node.keys.push_back({std::move(node.text), mark.line + 1, mark.column + 1});
    } else {
      parent.node.items.push_back(std::move(node));
    }
    parent.key_next = !parent.key_next;
  }

  void FinishMap(Node& map) {
    std::vector<Node::Key> keys = std::exchange(map.keys, {});
    std::vector<Node> items = std::exchange(map.items, {});
    std::unordered_set<std::string> seen;
    std::vector<Node> merged;
    for (std::size_t i = 0; i < items.size(); ++i) {
      Node::Key& key = keys[i];
      Node& item = items[i];
      if (key.text == "<<" && (item.kind == Node::Kind::kMap || item.kind == Node::Kind::kList)) {
        merged.push_back(std::move(item));
      } else if (!seen.insert(key.text).second) {
        faults_.push_back({file_, key.line, key.column, key.text, "", "the key stands here twice", ""});
      } else {
        map.keys.push_back(std::move(key));
        map.items.push_back(std::move(item));
      }
    }
    const auto take = [&](Node& from) {
      for (std::size_t i = 0; i < from.items.size(); ++i) {
        if (!seen.insert(from.keys[i].text).second) continue;
        map.keys.push_back(std::move(from.keys[i]));
        map.items.push_back(std::move(from.items[i]));
      }
    };
    for (Node& from : merged) {
      if (from.kind == Node::Kind::kMap) {
        take(from);
        continue;
      }
      for (Node& one : from.items) {
        if (one.kind == Node::Kind::kMap) take(one);
      }
    }
  }

  const std::string file_;
  std::string_view rest_;  // of the text, from line_ (from 0) on
  int line_ = 0;
  std::vector<Fault>& faults_;
  bool started_ = false;
  std::vector<Node> documents_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Anchor> anchors_;
  std::size_t count_ = 0;
};

}  // namespace

const Node* Node::Find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

Node* Node::Find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).Find(key)); }

std::vector<Node> ParseDocuments(std::string_view file, std::string_view text, std::vector<Fault>& faults) {
  if (text.size() > kMaxDocumentBytes) {
    faults.push_back({std::string(file), 0, 0, "", std::to_string(text.size()) + " bytes", "larger than 16MiB", ""});
    return {};
  }
  Builder builder(file, text, faults);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const BoundPassed& passed) {
    faults.push_back({std::string(file), passed.mark.line + 1, passed.mark.column + 1, "", "", passed.rule, ""});
  } catch (const YAML::Exception& error) {
    faults.push_back(
        {std::string(file), error.mark.line + 1, error.mark.column + 1, "", "", "not YAML: " + error.msg, ""});
  } catch (const std::exception& error) {
    faults.push_back({std::string(file), 0, 0, "", "", std::string("not readable: ") + error.what(), ""});
  }
  return builder.TakeDocuments();
}

}  // namespace posthorn::config
