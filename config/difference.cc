#include "config/difference.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "config/document.h"
#include "config/effective.h"
#include "config/option_table.h"

namespace posthorn::config {
namespace {

using Keys = std::map<std::string, std::string>;  // path -> value as shown

// An effective configuration, taken apart again.
struct Shown {
  Keys top;
  std::map<std::string, Keys> subscriptions;
};

// Keys whose shown values are equal and which differ all the same, by subscription.
using Hidden = std::map<std::string, std::set<std::string>>;

void Flatten(const Node& node, const std::string& path, Keys& keys) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return;
    case Node::Kind::kScalar:
      keys[path] = node.text;
      return;
    case Node::Kind::kList: {
      std::string all;
      for (const Node& item : node.items) all += (all.empty() ? "" : ", ") + item.text;
      keys[path] = "[" + all + "]";
      return;
    }
    case Node::Kind::kMap:
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        Flatten(node.items[i], path + (path.empty() ? "" : ".") + node.keys[i].text, keys);
      }
  }
}

Shown TakeApart(const std::string& yaml) {
  Shown shown;
  std::vector<Fault> faults;
  for (const Node& root : ParseDocuments("", yaml, faults)) {
    for (std::size_t i = 0; i < root.items.size(); ++i) {
      if (root.keys[i].text == "allow_empty") continue;  // shown so that an empty revision can be read again
      if (root.keys[i].text != "subscriptions") {
        Flatten(root.items[i], root.keys[i].text, shown.top);
        continue;
      }
      for (const Node& item : root.items[i].items) {
        const Node* name = item.Find("name");
        if (name != nullptr) Flatten(item, "", shown.subscriptions[name->text]);
      }
    }
  }
  return shown;
}

// What a subscription that says nothing of its own is shown with.
Keys DefaultKeys() {
  Snapshot bare;
  bare.subscriptions.emplace_back().name = "bare";
  Keys keys = TakeApart(EffectiveYaml(bare)).subscriptions["bare"];
  keys["burst"] = FindOption(Document::kSubscriptions, "subscriptions[].burst")->fallback;
  return keys;
}

std::string OrUnset(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "unset" : found->second;
}

std::vector<std::string> ChangedLines(const Keys& before, const Keys& after, const std::set<std::string>& hidden) {
  std::set<std::string> keys(hidden);
  for (const auto& [key, value] : before) keys.insert(key);
  for (const auto& [key, value] : after) keys.insert(key);
  std::vector<std::string> lines;
  for (const std::string& key : keys) {
    const std::string old_value = OrUnset(before, key);
    const std::string new_value = OrUnset(after, key);
    if (old_value != new_value) {
      lines.push_back(key + ": " + old_value + " -> " + new_value);
    } else if (hidden.contains(key)) {
      lines.push_back(key + ": " + old_value + " -> " + new_value + " (another value)");
    }
  }
  return lines;
}

std::string Listing(const Shown& before, const Shown& after, const Hidden& hidden) {
  std::string text;
  for (const std::string& line : ChangedLines(before.top, after.top, {})) text += "~ " + line + "\n";
  const Keys defaults = DefaultKeys();
  std::set<std::string> names;
  for (const auto& [name, keys] : before.subscriptions) names.insert(name);
  for (const auto& [name, keys] : after.subscriptions) names.insert(name);
  for (const std::string& name : names) {
    const auto was = before.subscriptions.find(name);
    const auto is = after.subscriptions.find(name);
    if (is == after.subscriptions.end()) {
      text += "- " + name + "\n";
    } else if (was == before.subscriptions.end()) {
      text += "+ " + name + "\n";
      for (const auto& [key, value] : is->second) {
        if (key != "name" && OrUnset(defaults, key) != value) text += "    " + key + ": " + value + "\n";
      }
    } else {
      const auto secret = hidden.find(name);
      const auto lines =
          ChangedLines(was->second, is->second, secret == hidden.end() ? std::set<std::string>() : secret->second);
      if (!lines.empty()) text += "~ " + name + "\n";
      for (const std::string& line : lines) text += "    " + line + "\n";
    }
  }
  return text;
}

Hidden FindHidden(const Snapshot& before, const Snapshot& after) {
  Hidden hidden;
  for (const Subscription& is : after.subscriptions) {
    const auto was = std::find_if(before.subscriptions.begin(), before.subscriptions.end(),
                                  [&](const Subscription& s) { return s.name == is.name; });
    if (was == before.subscriptions.end()) continue;
    if (was->endpoint != is.endpoint) hidden[is.name].insert("endpoint");
    for (const auto& [name, value] : is.headers) {
      const auto old = std::find_if(was->headers.begin(), was->headers.end(),
                                    [&, key = &name](const auto& header) { return header.first == *key; });
      if (old != was->headers.end() && old->second != value) hidden[is.name].insert("headers." + name);
    }
  }
  return hidden;
}

}  // namespace

std::string DifferenceText(const Snapshot& before, const Snapshot& after) {
  return Listing(TakeApart(EffectiveYaml(before)), TakeApart(EffectiveYaml(after)), FindHidden(before, after));
}

std::string DifferenceText(const std::string& before_yaml, const Snapshot& after) {
  return Listing(TakeApart(before_yaml), TakeApart(EffectiveYaml(after)), {});
}

}  // namespace posthorn::config
