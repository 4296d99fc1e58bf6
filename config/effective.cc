#include "config/effective.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>

#include "config/fields.h"
#include "config/option_table.h"
#include "config/rfc3339.h"
#include "config/units.h"

namespace posthorn::config {
namespace {

// A text that YAML reads back as itself: bare where nothing can be mistaken, else in double quotes.
std::string Quote(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kBare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/";
  const bool url = text.starts_with("http://") || text.starts_with("https://");
  const std::string_view rest = url ? text.substr(text.find("://") + 3) : text;
  const auto bare = [&](char c) { return kBare.find(c) != std::string_view::npos || (url && c == ':'); };
  const bool word = text == "true" || text == "false" || text == "null" || text == "Null" || text == "NULL";
  const bool plain = !text.empty() && !word && kFirst.find(text.front()) != std::string_view::npos &&
                     std::all_of(rest.begin(), rest.end(), bare) && !rest.ends_with(':') &&
                     kLetters.find(text.back()) != std::string_view::npos;
  if (plain) return std::string(text);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      out += "$$";  // read back, `${` would be a variable
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Flow(const std::vector<std::string>& items, char open, char close) {
  if (items.empty()) return std::string{open, close};
  std::string out{open};
  for (const std::string& item : items) out += (out.size() == 1 ? " " : ", ") + item;
  return out + " " + close;
}

template <typename Entries>
std::string TextMap(const Entries& entries, const std::vector<std::string>& secret) {
  std::vector<std::string> items;
  for (const auto& [key, value] : entries) {
    const bool masked = LooksSecret(key) || std::find(secret.begin(), secret.end(), key) != secret.end();
    items.push_back(Quote(key) + ": " + (masked ? "\"" + std::string(kMasked) + "\"" : Quote(value)));
  }
  return Flow(items, '{', '}');
}

// The name of its file is no secret.
std::string SecretText(const Secret& secret) {
  return secret.file.empty() ? "\"" + std::string(kMasked) + "\"" : Quote("file:" + secret.file);
}

// The text of a field as a user would write it; nothing: unset.
template <typename Field>
std::optional<std::string> Show(const Option& option, const Field& field, const std::vector<std::string>& secret) {
  if constexpr (std::is_enum_v<Field>) {
    return std::string(option.choices[static_cast<std::size_t>(field)].word);
  } else if constexpr (std::is_same_v<Field, std::string>) {
    if (field.empty()) return std::nullopt;
    // A query often carries a token; the rest of the address does not.
    const bool url = option.path.ends_with(".endpoint") || option.path.ends_with(".url");
    const auto query = url ? field.find('?') : std::string::npos;
    return Quote(query == std::string::npos ? field : field.substr(0, query + 1).append(kMasked));
  } else if constexpr (std::is_same_v<Field, bool>) {
    if (option.type == Type::kEnum) return std::string(option.choices[field ? 1 : 0].word);
    return field ? "true" : "false";
  } else if constexpr (std::is_same_v<Field, Milliseconds>) {
    return FormatDuration(field);
  } else if constexpr (std::is_same_v<Field, std::uint64_t>) {
    return FormatSize(field);
  } else if constexpr (std::is_same_v<Field, std::uint32_t>) {
    if (field == 0 && option.min != "0") return std::nullopt;  // 0 stands for unset
    return std::to_string(field);
  } else if constexpr (std::is_same_v<Field, std::optional<std::uint32_t>>) {
    if (!field) return std::nullopt;
    return std::to_string(*field);
  } else if constexpr (std::is_same_v<Field, double>) {
    return FormatNumber(field);
  } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
    std::vector<std::string> items;
    for (const std::string& item : field) items.push_back(Quote(item));
    return Flow(items, '[', ']');
  } else if constexpr (std::is_same_v<Field, Secret>) {
    if (field.empty()) return std::nullopt;
    return SecretText(field);
  } else if constexpr (std::is_same_v<Field, std::map<std::string, Secret>>) {
    std::vector<std::string> items;
    for (const auto& [key, value] : field) items.push_back(Quote(key) + ": " + SecretText(value));
    return Flow(items, '{', '}');
  } else {
    return TextMap(field, secret);
  }
}

using ShownByPath = std::map<std::string, std::string, std::less<>>;

template <typename Struct>
ShownByPath ShowFields(const Struct& value, Document document, const std::string& section,
                       const std::vector<std::string>& secret) {
  ShownByPath shown;
  VisitFields(value, [&](std::string_view key, const auto& field) {
    const Option* option = FindOption(document, section + std::string(key));
    if (auto text = Show(*option, field, secret)) shown[std::string(key)] = *text;
  });
  return shown;
}

// The options below `section` in the table's order; unset ones as comments, so that the text names every option.
std::string Lines(Document document, const std::string& section, const ShownByPath& shown, const std::string& indent) {
  std::string out;
  for (const Option& option : Options(document)) {
    if (!option.path.starts_with(section) || !option.unavailable.empty()) continue;
    const std::string_view key = option.path.substr(section.size());
    if (key.empty() || key.find_first_of("[*") != std::string_view::npos) continue;
    const auto depth = static_cast<std::size_t>(std::count(key.begin(), key.end(), '.'));
    const std::string margin = indent + std::string(2 * depth, ' ');
    const std::string_view name = key.substr(key.rfind('.') + 1);
    if (option.type == Type::kSection) {
      const std::string inside = std::string(key) + ".";
      const bool any =
          std::any_of(shown.begin(), shown.end(), [&](const auto& s) { return s.first.starts_with(inside); });
      out += margin + (any ? "" : "# ") + std::string(name) + ":\n";
      continue;
    }
    const auto found = shown.find(key);
    if (found != shown.end()) {
      out += margin + std::string(name) + ": " + found->second + "\n";
    } else {
      out += margin + "# " + std::string(name) + ": unset\n";
    }
  }
  return out;
}

}  // namespace

std::string EffectiveYaml(const Deployment& deployment) {
  ShownByPath shown = ShowFields(deployment, Document::kDeployment, "", deployment.secret_kafka);
  // Of the sources only the one that is used: the defaults of another would read back as a second one.
  const SourceKind kind = deployment.source.kind;
  const auto drop = [&](SourceKind other, const std::string& section) {
    if (kind != other) std::erase_if(shown, [&](const auto& s) { return s.first.starts_with(section); });
  };
  drop(SourceKind::kFile, "subscriptions.file");
  drop(SourceKind::kCentralDogma, "subscriptions.central_dogma.");
  drop(SourceKind::kKafkaTopic, "subscriptions.kafka_topic.");
  drop(SourceKind::kEtcd, "subscriptions.etcd.");
  drop(SourceKind::kUrl, "subscriptions.url.");
  std::string out = Lines(Document::kDeployment, "", shown, "");
  if (deployment.slot) out += "# slot: " + std::to_string(*deployment.slot) + "\n";
  return out;
}

std::string EffectiveYaml(const Snapshot& snapshot) {
  std::map<std::string, std::size_t, std::less<>> users;
  std::map<std::string, const Limit*, std::less<>> limits;
  for (const Limit& limit : snapshot.limits) limits[limit.name] = &limit;
  for (const Subscription& s : snapshot.subscriptions) ++users[s.limit];
  const auto own = [&](const Subscription& s) { return s.limit == s.name && users[s.limit] == 1; };

  std::string shared;
  for (const Limit& limit : snapshot.limits) {
    const bool is_own = std::any_of(snapshot.subscriptions.begin(), snapshot.subscriptions.end(),
                                    [&](const Subscription& s) { return s.limit == limit.name && own(s); });
    if (!is_own) shared += "  " + Quote(limit.name) + ": { max_rate: " + limit.max_rate.ToString() + " }\n";
  }

  std::string out;
  if (!snapshot.digest.empty()) out += "# revision: " + snapshot.digest + "\n";
  out += snapshot.instances ? "instances: " + std::to_string(*snapshot.instances) + "\n" : "# instances: unset\n";
  out += snapshot.effective_at ? "effective_at: \"" + FormatRfc3339(*snapshot.effective_at) + "\"\n"
                               : "# effective_at: unset\n";
  if (snapshot.subscriptions.empty()) out += "allow_empty: true\n";
  if (!shared.empty()) out += "limits:\n" + shared;
  out += snapshot.subscriptions.empty() ? "subscriptions: []\n" : "subscriptions:\n";
  const std::string section = "subscriptions[].";
  for (const Subscription& s : snapshot.subscriptions) {
    ShownByPath shown = ShowFields(s, Document::kSubscriptions, section, s.secret_headers);
    if (const auto found = limits.find(s.limit); found != limits.end()) {
      shown["burst"] = found->second->burst == Burst::kSmooth ? "smooth" : "window";
      if (own(s)) {
        shown["max_rate"] = found->second->max_rate.ToString();
        shown.erase("limit");
      }
    }
    std::string lines = Lines(Document::kSubscriptions, section, shown, "    ");
    lines[2] = '-';
    out += lines;
  }
  return out;
}

}  // namespace posthorn::config
