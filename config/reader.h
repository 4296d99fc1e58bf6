#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/document.h"
#include "config/environment.h"
#include "config/model.h"
#include "config/option_table.h"
#include "config/secret.h"

namespace posthorn::config {

/// An enum's word and its number in Option::choices.
struct Word {
  std::size_t index = 0;
  std::string_view text;
};

struct TextEntry {
  std::string key;
  std::string value;
  bool hidden = false;  // from `file:` or an environment variable
};

/// One option's value, checked against the table. Sections that the caller reads itself are std::monostate.
using Value =
    std::variant<std::monostate, std::string, Word, Milliseconds, std::uint64_t, ratelimit::MaxRate, std::int64_t,
                 double, bool, std::vector<std::string>, std::vector<TextEntry>, Secret, std::map<std::string, Secret>>;

/// Checks the maps of one document against the option table. Knows types, ranges, words, `${NAME}` and `file:`; rules
/// between options are the loaders'.
///
/// Errors  Every fault is added to the list; options without fault are still handed over.
class Reader {
 public:
  /// `key` is relative to the section: `backoff.initial`.
  using Take = std::function<void(std::string_view key, const Node& node, Value value)>;

  Reader(Document document, std::string file, const Environment& environment, std::vector<Fault>& faults)
      : document_(document), file_(std::move(file)), environment_(environment), faults_(faults) {}

  /// Reads the options of `section` (`""`, `defaults`, `subscriptions[]`, `limits.*`); `shown` is its path for faults.
  void ReadSection(const Node& node, std::string_view section, const std::string& shown, const Take& take);

  void AddFault(const Node& node, std::string path, std::string value, std::string rule, std::string hint = {});

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  struct Resolved {
    std::string text;
    bool hidden = false;
  };

  void ReadKeys(const Node& node, std::string_view section, const std::string& shown, const std::string& below,
                const Take& take);
  void AddKeyFault(const Node& map, std::size_t index, const std::string& path, std::string rule, std::string hint);
  const Option* Known(const Node& node, std::size_t index, std::span<const std::string_view> known,
                      std::string_view section, const std::string& path);
  std::optional<Value> ReadValue(const Option& option, const Node& node, const std::string& path);
  std::optional<Value> ReadScalar(const Option& option, const Node& node, const std::string& path);
  std::optional<Value> ReadEnum(const Option& option, const Resolved& text, std::string* why);
  std::optional<Value> ReadTextMap(const Option& option, const Node& node, const std::string& path);
  std::optional<Value> ReadSecretMap(const Option& option, const Node& node, const std::string& path);
  std::optional<Secret> ReadSecretText(const Option& option, const Node& node, const std::string& path);
  std::optional<Value> ReadTextList(const Option& option, const Node& node, const std::string& path);
  std::optional<Resolved> Resolve(const Node& node, const std::string& path, bool files, bool shown);
  std::optional<std::string> Substitute(const std::string& text, bool* substituted, std::string* why);
  std::string ShownValue(const Option& option, const Node& node) const;

  const Document document_;
  const std::string file_;
  const Environment& environment_;
  std::vector<Fault>& faults_;
};

/// `min` to `max` of the table for what was read; empty when it is within.
std::string CheckRange(const Option& option, const Value& value);

/// Puts a value that was read into a field of the model.
template <typename Field>
void Assign(Field& field, const Value& value) {
  if constexpr (std::is_enum_v<Field>) {
    field = static_cast<Field>(std::get<Word>(value).index);
  } else if constexpr (std::is_same_v<Field, std::string>) {
    const Word* word = std::get_if<Word>(&value);
    field = word != nullptr ? std::string(word->text) : std::get<std::string>(value);
  } else if constexpr (std::is_same_v<Field, bool>) {
    const Word* word = std::get_if<Word>(&value);  // a choice of two
    field = word != nullptr ? word->index != 0 : std::get<bool>(value);
  } else if constexpr (std::is_same_v<Field, std::uint32_t> || std::is_same_v<Field, std::optional<std::uint32_t>>) {
    field = static_cast<std::uint32_t>(std::get<std::int64_t>(value));
  } else if constexpr (std::is_same_v<Field, std::map<std::string, std::string>>) {
    field.clear();
    for (const TextEntry& entry : std::get<std::vector<TextEntry>>(value)) field[entry.key] = entry.value;
  } else if constexpr (std::is_same_v<Field, std::vector<std::pair<std::string, std::string>>>) {
    field.clear();
    for (const TextEntry& entry : std::get<std::vector<TextEntry>>(value)) field.emplace_back(entry.key, entry.value);
  } else {
    field = std::get<Field>(value);
  }
}

}  // namespace posthorn::config
