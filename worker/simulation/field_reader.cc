#include "worker/simulation/field_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "config/option_table.h"
#include "config/units.h"

namespace posthorn::simulation {

using config::Node;
using ratelimit::Nanoseconds;

FieldReader::FieldReader(const Node& map, std::string_view section, std::string path, std::span<const Field> fields,
                         std::string file, std::vector<config::Fault>& faults)
    : map_(map), path_(std::move(path)), file_(std::move(file)), faults_(faults) {
  if (map_.kind == Node::Kind::kMap) {
    CheckKeys(section, fields);
  } else {
    faults_.push_back({file_, map_.line, map_.column, path_, map_.text, "needs a map of keys", ""});
  }
}

void FieldReader::CheckKeys(std::string_view section, std::span<const Field> fields) {
  std::vector<std::string_view> known;
  std::string all;
  for (const Field& field : fields) {
    if (field.section != section) continue;
    known.push_back(field.key);
    all += (all.empty() ? "" : ", ") + std::string(field.key);
  }
  for (const Node::Key& key : map_.keys) {
    if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
    const std::string_view nearest = config::Nearest(key.text, known);
    std::string hint = nearest.empty() ? "known here: " + all : "did you mean `" + std::string(nearest) + "`?";
    faults_.push_back({file_, key.line, key.column, PathOf(key.text), "", "unknown key", std::move(hint)});
  }
}

std::string FieldReader::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void FieldReader::AddFault(std::string_view key, std::string rule, std::string hint) {
  const Node* node = map_.Find(key);
  const Node& place = node != nullptr ? *node : map_;
  faults_.push_back({file_, place.line, place.column, PathOf(key), node != nullptr ? node->text : "", std::move(rule),
                     std::move(hint)});
}

const Node* FieldReader::Scalar(std::string_view key) {
  const Node* node = map_.Find(key);
  if (node == nullptr) return nullptr;
  if (node->kind == Node::Kind::kScalar) return node;
  AddFault(key, node->kind == Node::Kind::kNull ? "has no value" : "needs a single value");
  return nullptr;
}

template <typename Parse>
auto FieldReader::Parsed(std::string_view key, const Parse& parse) -> decltype(parse("", nullptr)) {
  const Node* node = Scalar(key);
  if (node == nullptr) return std::nullopt;
  std::string why;
  auto value = parse(node->text, &why);
  if (!value) AddFault(key, std::move(why));
  return value;
}

bool FieldReader::Text(std::string_view key, std::string& out) {
  const Node* node = Scalar(key);
  if (node != nullptr) out = node->text;
  return node != nullptr;
}

bool FieldReader::Integer(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max) {
  const auto value = Parsed(key, config::ParseInteger);
  if (!value) return false;
  const bool within = *value >= min && *value <= max;
  if (within) {
    out = *value;
  } else {
    AddFault(key, "needs to be from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return within;
}

bool FieldReader::Number(std::string_view key, double& out, double min, double max) {
  const auto value = Parsed(key, config::ParseNumber);
  if (!value) return false;
  const bool within = *value >= min && *value <= max;
  if (within) {
    out = *value;
  } else {
    AddFault(key, "needs to be from " + config::FormatNumber(min) + " to " + config::FormatNumber(max));
  }
  return within;
}

bool FieldReader::Duration(std::string_view key, Nanoseconds& out, Nanoseconds min, Nanoseconds max) {
  const auto value = Parsed(key, config::ParseDuration);
  if (!value) return false;
  const bool within = *value >= min && *value <= max;
  const auto text = [](Nanoseconds time) {
    return config::FormatDuration(std::chrono::duration_cast<config::Milliseconds>(time));
  };
  if (within) {
    out = *value;
  } else {
    AddFault(key, "needs to be from " + text(min) + " to " + text(max));
  }
  return within;
}

bool FieldReader::Rate(std::string_view key, ratelimit::MaxRate& out) {
  const auto value = Parsed(key, ratelimit::MaxRate::Parse);
  if (value) out = *value;
  return value.has_value();
}

bool FieldReader::Share(std::string_view key, double& out) {
  const auto parse = [](std::string_view text, std::string* why) -> std::optional<double> {
    const bool percent = text.ends_with('%');
    if (percent) text.remove_suffix(1);
    auto number = config::ParseNumber(text, nullptr);
    if (number && percent) *number /= 100;
    if (number && *number >= 0 && *number <= 1) return number;
    *why = "needs a share, from 0% to 100%";
    return std::nullopt;
  };
  const auto value = Parsed(key, parse);
  if (value) out = *value;
  return value.has_value();
}

bool FieldReader::Word(std::string_view key, std::size_t& out, std::span<const std::string_view> words) {
  const Node* node = Scalar(key);
  if (node == nullptr) return false;
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == node->text) {
      out = i;
      return true;
    }
    all += (all.empty() ? "" : ", ") + std::string(words[i]);
  }
  AddFault(key, "needs one of: " + all);
  return false;
}

bool FieldReader::Texts(std::string_view key, std::vector<std::string>& out) {
  const Node* node = map_.Find(key);
  if (node == nullptr) return false;
  if (node->kind == Node::Kind::kScalar) {
    out = {node->text};
    return true;
  }
  if (node->kind != Node::Kind::kList) {
    AddFault(key, "needs a name, or a list of names");
    return false;
  }
  out.clear();
  for (const Node& item : node->items) out.push_back(item.text);
  return true;
}

const Node* FieldReader::Map(std::string_view key) {
  const Node* node = map_.Find(key);
  if (node != nullptr && node->kind != Node::Kind::kMap) AddFault(key, "needs a map of keys");
  return node != nullptr && node->kind == Node::Kind::kMap ? node : nullptr;
}

const Node* FieldReader::List(std::string_view key) {
  const Node* node = map_.Find(key);
  if (node != nullptr && node->kind != Node::Kind::kList) AddFault(key, "needs a list");
  return node != nullptr && node->kind == Node::Kind::kList ? node : nullptr;
}

}  // namespace posthorn::simulation
