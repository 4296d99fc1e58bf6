#include "config/reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "config/rules.h"
#include "config/units.h"

namespace posthorn::config {
namespace {

std::string Join(std::string_view before, std::string_view key) {
  if (before.empty()) return std::string(key);
  return std::string(before) + "." + std::string(key);
}

std::string_view KindText(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return "a single value";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return {};
}

bool IsEmptyAllowed(Type type) {
  return type == Type::kSection || type == Type::kSections || type == Type::kNamed || type == Type::kTextList ||
         type == Type::kTextMap || type == Type::kSecretMap;
}

// The options of `defaults` are those of a subscription.
std::string TableSection(std::string_view section) {
  constexpr std::string_view kDefaults = "defaults";
  if (section != kDefaults && !section.starts_with("defaults.")) return std::string(section);
  return "subscriptions[]" + std::string(section.substr(kDefaults.size()));
}

}  // namespace

void Reader::AddFault(const Node& node, std::string path, std::string value, std::string rule, std::string hint) {
  faults_.push_back({node.file.empty() ? file_ : node.file, node.line, node.column, std::move(path), std::move(value),
                     std::move(rule), std::move(hint)});
}

void Reader::AddKeyFault(const Node& map, std::size_t index, const std::string& path, std::string rule,
                         std::string hint) {
  const Node& item = map.items[index];
  if (!item.file.empty()) return AddFault(item, path, "", std::move(rule), std::move(hint));
  const Node::Key& key = map.keys[index];
  faults_.push_back({file_, key.line, key.column, path, "", std::move(rule), std::move(hint)});
}

void Reader::ReadSection(const Node& node, std::string_view section, const std::string& shown, const Take& take) {
  ReadKeys(node, section, shown, "", take);
}

void Reader::ReadKeys(const Node& node, std::string_view section, const std::string& shown, const std::string& below,
                      const Take& take) {
  if (node.kind != Node::Kind::kMap) {
    if (node.kind != Node::Kind::kNull) {
      AddFault(node, shown, node.text.empty() ? "" : std::string(kMasked),
               "needs a map of keys, not " + std::string(KindText(node.kind)));
    }
    return;
  }
  const std::vector<std::string_view> known = KeysBelow(document_, section);
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string path = Join(shown, node.keys[i].text);
    const Option* option = Known(node, i, known, section, path);
    if (option == nullptr) continue;
    const std::string key = Join(below, node.keys[i].text);
    seen.insert(node.keys[i].text);
    if (!option->unavailable.empty()) {
      AddKeyFault(node, i, path, "not in this version: " + std::string(option->unavailable), "");
      continue;
    }
    const bool own_keys = option->type == Type::kSection && option->path != "defaults";
    if (own_keys) {
      ReadKeys(item, Join(section, node.keys[i].text), path, key, take);
    } else if (auto value = ReadValue(*option, item, path)) {
      take(key, item, std::move(*value));
    }
  }
  if (section == "defaults") return;
  for (const std::string_view key : known) {
    const Option* option = FindOption(document_, Join(TableSection(section), key));
    if (option->required && !seen.contains(key)) AddFault(node, Join(shown, key), "", "is needed");
  }
}

const Option* Reader::Known(const Node& node, std::size_t index, std::span<const std::string_view> known,
                            std::string_view section, const std::string& path) {
  const Node::Key& key = node.keys[index];
  if (std::find(known.begin(), known.end(), key.text) != known.end()) {
    return FindOption(document_, Join(TableSection(section), key.text));
  }
  if (section == "defaults" && !AllowedInDefaults(key.text)) {
    AddKeyFault(node, index, path, "each subscription has its own", "");
    return nullptr;
  }
  const std::string_view nearest = Nearest(key.text, known);
  if (!nearest.empty()) {
    AddKeyFault(node, index, path, "unknown key", "did you mean `" + std::string(nearest) + "`?");
    return nullptr;
  }
  std::string all;
  for (const std::string_view word : known) all += (all.empty() ? "" : ", ") + std::string(word);
  AddKeyFault(node, index, path, "unknown key", known.empty() ? "" : "known here: " + all);
  return nullptr;
}

std::optional<Value> Reader::ReadValue(const Option& option, const Node& node, const std::string& path) {
  if (node.kind == Node::Kind::kNull) {
    if (!IsEmptyAllowed(option.type)) AddFault(node, path, "", "has no value: needs " + TypeText(option));
    return std::nullopt;
  }
  switch (option.type) {
    case Type::kSection:
    case Type::kNamed:
      if (node.kind == Node::Kind::kMap) return Value();
      AddFault(node, path, "", "needs a map, not " + std::string(KindText(node.kind)));
      return std::nullopt;
    case Type::kSections:
      if (node.kind == Node::Kind::kList) return Value();
      AddFault(node, path, "", "needs a list, not " + std::string(KindText(node.kind)));
      return std::nullopt;
    case Type::kTextMap:
      return ReadTextMap(option, node, path);
    case Type::kSecretMap:
      return ReadSecretMap(option, node, path);
    case Type::kSecret: {
      auto secret = ReadSecretText(option, node, path);
      return secret ? std::optional<Value>(std::move(*secret)) : std::nullopt;
    }
    case Type::kTextList:
      return ReadTextList(option, node, path);
    default:
      return ReadScalar(option, node, path);
  }
}

std::string Reader::ShownValue(const Option& option, const Node& node) const {
  if (option.secret || HoldsCredentials(node.text)) return std::string(kMasked);
  return node.text;
}

std::optional<Value> Reader::ReadScalar(const Option& option, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::kScalar) {
    AddFault(node, path, "", "needs " + TypeText(option) + ", not " + std::string(KindText(node.kind)));
    return std::nullopt;
  }
  const auto text = Resolve(node, path, false, !option.secret);
  if (!text) return std::nullopt;
  const bool literal = text->text == node.text;
  const auto fail = [&](std::string rule) -> std::optional<Value> {
    const bool tell = !literal && !option.secret && !HoldsCredentials(text->text);
    AddFault(node, path, literal || tell ? ShownValue(option, node) : std::string(kMasked), std::move(rule),
             tell ? "it is \"" + text->text + "\"" : "");
    return std::nullopt;
  };
  // "true" and "5" in quotes are texts, unless a variable needed the quotes.
  const bool text_only = node.quoted && literal;
  std::string why;
  std::optional<Value> value;
  const auto accept = [&](auto parsed) {
    if (parsed) value = Value(std::move(*parsed));
  };
  switch (option.type) {
    case Type::kText:
    case Type::kName:
    case Type::kPath: {
      std::string plain = text->text;
      if (option.type == Type::kPath && plain.starts_with("file:")) plain.erase(0, 5);
      if (plain.find('\0') != std::string::npos) return fail("no zero bytes");
      if (plain.empty()) {
        if (option.required) return fail("is needed");
        return Value(std::move(plain));  // as if it were absent: `${ADMIN:-}`
      }
      if (option.type == Type::kName) why = CheckName(plain);
      if (option.check != nullptr) why = option.check(plain);
      if (!why.empty()) return fail(std::move(why));
      return Value(std::move(plain));
    }
    case Type::kEnum:
      accept(ReadEnum(option, *text, &why));
      break;
    case Type::kDuration:
      accept(ParseDuration(text->text, &why));
      break;
    case Type::kSize:
      accept(ParseSize(text->text, &why));
      break;
    case Type::kRate:
      accept(ratelimit::MaxRate::Parse(text->text, &why));
      break;
    case Type::kInteger:
      if (text_only) return fail("needs a whole number, not a text: leave out the quotes");
      accept(ParseInteger(text->text, &why));
      break;
    case Type::kNumber:
      if (text_only) return fail("needs a number, not a text: leave out the quotes");
      accept(ParseNumber(text->text, &why));
      break;
    case Type::kBool:
      if (text_only) return fail("needs true or false, not a text: leave out the quotes");
      if (text->text == "true" || text->text == "false") return Value(text->text == "true");
      return fail("needs true or false");
    case Type::kTextList:
    case Type::kTextMap:
    case Type::kSecret:
    case Type::kSecretMap:
    case Type::kSection:
    case Type::kSections:
    case Type::kNamed:
      break;
  }
  if (!value) return fail(why.empty() ? "needs " + TypeText(option) : why);
  if (std::string broken = CheckRange(option, *value); !broken.empty()) return fail(std::move(broken));
  return value;
}

std::optional<Value> Reader::ReadEnum(const Option& option, const Resolved& text, std::string* why) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < option.choices.size(); ++i) {
    const Choice& choice = option.choices[i];
    words.push_back(choice.word);
    if (choice.word != text.text) continue;
    if (choice.unavailable.empty()) return Value(Word{i, choice.word});
    *why = "not in this version: " + std::string(choice.unavailable);
    return std::nullopt;
  }
  *why = "needs one of: " + TypeText(option);
  if (const std::string_view nearest = Nearest(text.text, words); !nearest.empty() && words.size() > 2) {
    *why += "; nearest is `" + std::string(nearest) + "`";
  }
  return std::nullopt;
}

std::optional<Value> Reader::ReadTextMap(const Option& option, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::kMap) {
    AddFault(node, path, "", "needs a map of texts, not " + std::string(KindText(node.kind)));
    return std::nullopt;
  }
  std::vector<TextEntry> entries;
  std::set<std::string> names;
  bool good = true;
  const auto fail = [&](const Node& item, const std::string& at, std::string rule) {
    AddFault(item, at, "", std::move(rule));
    good = false;
  };
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const Node& item = node.items[i];
    const std::string at = Join(path, key);
    if (std::string rule = option.check_key == nullptr ? "" : option.check_key(key); !rule.empty()) {
      fail(item, at, std::move(rule));
      continue;
    }
    if (!names.insert(LowerCase(key)).second) {
      fail(item, at, "the name stands here twice (case does not matter)");
      continue;
    }
    if (item.kind != Node::Kind::kScalar) {
      fail(item, at, "needs a text, not " + std::string(KindText(item.kind)));
      continue;
    }
    const auto text = Resolve(item, at, true, false);
    if (!text) {
      good = false;
      continue;
    }
    if (std::string rule = option.check == nullptr ? "" : option.check(text->text); !rule.empty()) {
      AddFault(item, at, std::string(kMasked), std::move(rule));
      good = false;
      continue;
    }
    entries.push_back({key, text->text, text->hidden});
  }
  if (!good) return std::nullopt;
  return Value(std::move(entries));
}

std::optional<Secret> Reader::ReadSecretText(const Option& option, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::kScalar) {
    AddFault(node, path, "", "needs a text, not " + std::string(KindText(node.kind)));
    return std::nullopt;
  }
  auto text = Resolve(node, path, false, false);
  if (!text) return std::nullopt;
  Secret secret;
  std::string rule;
  if (text->text.starts_with("file:")) {
    secret.file = text->text.substr(5);
    if (!secret.file.starts_with('/')) rule = "`file:` needs an absolute path";
    if (secret.file.find('\0') != std::string::npos) rule = "no zero bytes";
  } else {
    secret.value = std::move(text->text);
    if (option.check != nullptr) rule = option.check(secret.value);
  }
  if (rule.empty()) return secret;
  AddFault(node, path, std::string(kMasked), std::move(rule));
  return std::nullopt;
}

std::optional<Value> Reader::ReadSecretMap(const Option& option, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::kMap) {
    AddFault(node, path, "", "needs a map of texts, not " + std::string(KindText(node.kind)));
    return std::nullopt;
  }
  std::map<std::string, Secret> secrets;
  std::set<std::string> names;
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const std::string at = Join(path, key);
    std::string rule = option.check_key == nullptr ? "" : option.check_key(key);
    if (rule.empty() && !names.insert(LowerCase(key)).second)
      rule = "the name stands here twice (case does not matter)";
    if (!rule.empty()) {
      AddFault(node.items[i], at, "", std::move(rule));
      good = false;
    } else if (auto secret = ReadSecretText(option, node.items[i], at)) {
      secrets.emplace(key, std::move(*secret));
    } else {
      good = false;
    }
  }
  if (!good) return std::nullopt;
  return Value(std::move(secrets));
}

std::optional<Value> Reader::ReadTextList(const Option& option, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::kList) {
    AddFault(node, path, "", "needs a list of texts, not " + std::string(KindText(node.kind)));
    return std::nullopt;
  }
  std::vector<std::string> texts;
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (item.kind != Node::Kind::kScalar) {
      AddFault(item, at, "", "needs a text, not " + std::string(KindText(item.kind)));
      good = false;
      continue;
    }
    const auto text = Resolve(item, at, false, true);
    if (!text) {
      good = false;
      continue;
    }
    if (std::string rule = option.check == nullptr ? "" : option.check(text->text); !rule.empty()) {
      AddFault(item, at, item.text, std::move(rule));
      good = false;
      continue;
    }
    texts.push_back(text->text);
  }
  if (!good) return std::nullopt;
  return Value(std::move(texts));
}

std::optional<Reader::Resolved> Reader::Resolve(const Node& node, const std::string& path, bool files, bool shown) {
  std::string why;
  bool substituted = false;
  auto text = Substitute(node.text, &substituted, &why);
  if (!text) {
    AddFault(node, path, shown && !HoldsCredentials(node.text) ? node.text : std::string(kMasked), why);
    return std::nullopt;
  }
  if (!files || !text->starts_with("file:")) return Resolved{std::move(*text), substituted};
  const std::string name = text->substr(5);
  if (!name.starts_with('/')) {
    AddFault(node, path, shown ? node.text : std::string(kMasked), "`file:` needs an absolute path");
    return std::nullopt;
  }
  auto secret = environment_.read_file(name, &why);
  if (secret && secret->ends_with('\n')) secret->pop_back();
  if (secret && secret->ends_with('\r')) secret->pop_back();
  if (!secret || secret->empty()) {
    // The path of a literal is no secret; what a variable held may be.
    AddFault(node, path, substituted ? std::string(kMasked) : node.text,
             secret ? "the file is empty" : "the file cannot be read: " + why);
    return std::nullopt;
  }
  return Resolved{std::move(*secret), true};
}

std::optional<std::string> Reader::Substitute(const std::string& text, bool* substituted, std::string* why) {
  constexpr std::string_view kNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t dollar = text.find("${", at);
    if (dollar == std::string::npos) break;
    if (dollar > at && text[dollar - 1] == '$') {  // `$${` is a literal `${`
      out.append(text, at, dollar - at);
      out += '{';
      at = dollar + 2;
      continue;
    }
    out.append(text, at, dollar - at);
    const std::size_t end = text.find('}', dollar);
    if (end == std::string::npos) {
      *why = "`${` without `}` (a literal `${` is written `$${`)";
      return std::nullopt;
    }
    const std::string inside = text.substr(dollar + 2, end - dollar - 2);
    const std::size_t fallback = inside.find(":-");
    const std::string name = inside.substr(0, fallback);
    if (name.empty() || name.find_first_not_of(kNameCharacters) != std::string::npos) {
      *why = "`${NAME}` needs the name of an environment variable";
      return std::nullopt;
    }
    const auto value = environment_.variable(name);
    const bool set = value && !(value->empty() && fallback != std::string::npos);
    if (!set && fallback == std::string::npos) {
      *why = "the environment variable " + name + " is not set";
      return std::nullopt;
    }
    out += set ? *value : inside.substr(fallback + 2);
    *substituted = true;
    at = end + 1;
  }
  out.append(text, std::min(at, text.size()));
  return out;
}

std::string CheckRange(const Option& option, const Value& value) {
  const auto outside = [&](const auto& parse) {
    const auto number = parse(value);
    const bool below = !option.min.empty() && number < parse(option.min);
    const bool above = !option.max.empty() && number > parse(option.max);
    return below || above;
  };
  struct Duration {
    Milliseconds operator()(std::string_view text) const { return ParseDuration(text, nullptr).value(); }
    Milliseconds operator()(const Value& v) const { return std::get<Milliseconds>(v); }
  };
  struct Size {
    std::uint64_t operator()(std::string_view text) const { return ParseSize(text, nullptr).value(); }
    std::uint64_t operator()(const Value& v) const { return std::get<std::uint64_t>(v); }
  };
  struct Integer {
    std::int64_t operator()(std::string_view text) const { return ParseInteger(text, nullptr).value(); }
    std::int64_t operator()(const Value& v) const { return std::get<std::int64_t>(v); }
  };
  struct Number {
    double operator()(std::string_view text) const { return ParseNumber(text, nullptr).value(); }
    double operator()(const Value& v) const { return std::get<double>(v); }
  };
  bool broken = false;
  if (option.type == Type::kDuration) broken = outside(Duration());
  if (option.type == Type::kSize) broken = outside(Size());
  if (option.type == Type::kInteger) broken = outside(Integer());
  if (option.type == Type::kNumber) broken = outside(Number());
  if (!broken) return {};
  return "out of range: " + std::string(option.min) + " to " + std::string(option.max);
}

}  // namespace posthorn::config
