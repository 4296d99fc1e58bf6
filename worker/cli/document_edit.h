#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace posthorn::cli {

/// `text` (a document of subscriptions, YAML or JSON) with `effective_at: time` as one of its keys; everything else,
/// comments included, stays as it is. Unset: the text has no place for it that can be told.
[[nodiscard]] std::optional<std::string> WithEffectiveAt(const std::string& text, std::string_view time);

/// `text` without its `effective_at`. Unset: it has one that cannot be taken out so.
[[nodiscard]] std::optional<std::string> WithoutEffectiveAt(const std::string& text);

/// The document's `effective_at`, empty where it has none.
[[nodiscard]] std::string EffectiveAtOf(const std::string& text);

}  // namespace posthorn::cli
