#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::config {

/// Shown where a value may be a secret.
inline constexpr std::string_view kMasked = "***";

enum class Document : std::uint8_t { kDeployment, kSubscriptions };

enum class Type : std::uint8_t {
  kText,
  kPath,      // a file's name; a leading `file:` is dropped
  kName,      // [a-z0-9][a-z0-9.-]*
  kEnum,      // one of `choices`
  kDuration,  // 200ms, 5s, 10min, 1h
  kSize,      // 64KiB, 1MiB
  kRate,      // 500/s, 30/min, 1000/h, 0
  kInteger,
  kNumber,
  kBool,
  kTextList,
  kTextMap,    // free keys, text values; a value may be `file:/path`
  kSecret,     // a text that is never shown, or `file:/path`, read whenever it is used
  kSecretMap,  // free keys, such texts
  kSection,    // a map whose keys are options of their own
  kSections,   // a list of such maps: `path[]`
  kNamed,      // a map from names to such maps: `path.*`
};

enum class Reload : std::uint8_t { kStart, kLive };

/// A word an option takes; the order is that of the enum in model.h.
struct Choice {
  std::string_view word;
  std::string_view unavailable = "";  // why it is refused in this version; empty: it is not
};

/// One option: all that parser, validation, `check --help`, redaction and docs/configuration.md know about it.
///
/// Units   `fallback`, `min` and `max` are written as a user would write them.
struct Option {
  std::string_view path;  // `backoff.initial`, `subscriptions[].backoff.initial`
  Type type = Type::kText;
  std::string_view fallback = "";  // in force when the key is absent; empty: unset
  std::string_view min = "";
  std::string_view max = "";
  std::span<const Choice> choices = {};
  bool required = false;
  bool secret = false;  // never shown: values of text maps by their name and origin, anything else always
  Reload reload = Reload::kLive;
  std::string_view unavailable = "";                         // why it is refused in this version; empty: it is not
  std::string (*check)(std::string_view value) = nullptr;    // beyond the type, of each value; rules.h
  std::string (*check_key)(std::string_view key) = nullptr;  // of a text map's keys
  std::string_view help = "";                                // what it is, and when to change it
};

/// THE table, in the order of the documentation.
std::span<const Option> Options(Document document);

/// The option at `path` (indexes as `[]`), or null.
const Option* FindOption(Document document, std::string_view path);

/// Whether `defaults` may hold an option of a subscription, given by its path below `subscriptions[]`.
bool AllowedInDefaults(std::string_view path_in_subscription);

/// The keys known directly below a section (`""` for the top level).
std::vector<std::string_view> KeysBelow(Document document, std::string_view section);

/// `duration`, `one of smooth, window`, ... for people.
std::string TypeText(const Option& option);

/// The known word nearest to what was written, empty when none is near.
std::string_view Nearest(std::string_view written, std::span<const std::string_view> known);

}  // namespace posthorn::config
