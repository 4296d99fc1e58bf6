#include "worker/cli/document_edit.h"

#include <algorithm>
#include <vector>

#include "config/document.h"

namespace posthorn::cli {
namespace {

using config::Node;

constexpr std::string_view kKey = "effective_at";

std::vector<Node> Parse(const std::string& text) {
  std::vector<config::Fault> faults;
  auto documents = config::ParseDocuments("", text, faults);
  if (!faults.empty()) documents.clear();
  return documents;
}

/// Where a place of the parser's stands in the text.
std::size_t OffsetOf(const std::string& text, int line, int column) {
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) return text.size();
    at = end + 1;
  }
  return std::min(at + static_cast<std::size_t>(std::max(column - 1, 0)), text.size());  // columns are of bytes
}

struct Place {
  std::size_t key = 0;  // offsets
  std::size_t value = 0;
  std::size_t end = 0;  // of the value
};

std::optional<Place> Find(const std::string& text, const std::vector<Node>& documents) {
  for (const Node& root : documents) {
    for (std::size_t i = 0; i < root.items.size(); ++i) {
      const Node& item = root.items[i];
      if (root.keys[i].text != kKey || item.kind != Node::Kind::kScalar) continue;
      Place place;
      place.key = OffsetOf(text, root.keys[i].line, root.keys[i].column);
      place.value = OffsetOf(text, item.line, item.column);
      const char quote = place.value < text.size() ? text[place.value] : ' ';
      const bool quoted = quote == '"' || quote == '\'';
      place.end = place.value + item.text.size() + (quoted ? 2 : 0);
      return place.end <= text.size() ? std::optional(place) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Whether both hold the same, `effective_at` aside.
bool SameBeside(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text) return false;
  std::vector<std::size_t> left;
  std::vector<std::size_t> right;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (a.keys.empty() || a.keys[i].text != kKey) left.push_back(i);
  }
  for (std::size_t i = 0; i < b.items.size(); ++i) {
    if (b.keys.empty() || b.keys[i].text != kKey) right.push_back(i);
  }
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [&](std::size_t i, std::size_t k) {
    return (a.keys.empty() || a.keys[i].text == b.keys[k].text) && SameBeside(a.items[i], b.items[k]);
  });
}

/// The edit, if it has changed what it should and nothing else.
std::optional<std::string> Checked(const std::vector<Node>& before, std::string edited, std::string_view wanted) {
  const auto after = Parse(edited);
  if (!std::equal(before.begin(), before.end(), after.begin(), after.end(), SameBeside)) return std::nullopt;
  if (EffectiveAtOf(edited) != wanted) return std::nullopt;
  return edited;
}

}  // namespace

std::string EffectiveAtOf(const std::string& text) {
  for (const Node& root : Parse(text)) {
    if (const Node* found = root.Find(kKey); found != nullptr) return found->text;
  }
  return {};
}

std::optional<std::string> WithEffectiveAt(const std::string& text, std::string_view time) {
  const auto documents = Parse(text);
  if (documents.empty() || documents.front().kind != Node::Kind::kMap) return std::nullopt;
  const std::string quoted = "\"" + std::string(time) + "\"";
  std::string edited = text;
  if (const auto place = Find(text, documents)) {
    edited.replace(place->value, place->end - place->value, quoted);
    return Checked(documents, std::move(edited), time);
  }
  const Node& root = documents.front();
  const std::size_t at = OffsetOf(text, root.line, root.column);
  if (at < text.size() && text[at] == '{') {
    edited.insert(at + 1, "\"" + std::string(kKey) + "\": " + quoted + (root.items.empty() ? "" : ", "));
  } else {
    const auto indent = static_cast<std::size_t>(std::max(root.column - 1, 0));
    edited.insert(at, std::string(kKey) + ": " + quoted + "\n" + std::string(indent, ' '));
  }
  return Checked(documents, std::move(edited), time);
}

std::optional<std::string> WithoutEffectiveAt(const std::string& text) {
  const auto documents = Parse(text);
  const auto place = Find(text, documents);
  if (!place) return EffectiveAtOf(text).empty() ? std::optional(text) : std::nullopt;
  std::string edited = text;
  const auto line = text.rfind('\n', place->key) == std::string::npos ? 0 : text.rfind('\n', place->key) + 1;
  const auto line_end = std::min(text.find('\n', place->end), text.size());
  const auto rest = text.find_first_not_of(" \t\r", place->end);
  const bool ends = rest >= line_end || text[rest] == '#';
  if (ends && text.find_first_not_of(" \t", line) == place->key) {
    edited.erase(line, std::min(line_end + 1, text.size()) - line);
  } else {
    const auto comma = text.find_first_not_of(" \t\r\n", place->end);
    const auto next =
        comma != std::string::npos && text[comma] == ',' ? text.find_first_not_of(" \t\r\n", comma + 1) : place->end;
    edited.erase(place->key, std::min(next, text.size()) - place->key);
  }
  return Checked(documents, std::move(edited), "");
}

}  // namespace posthorn::cli
