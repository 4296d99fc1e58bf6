#include <algorithm>
#include <numeric>
#include <vector>

#include "config/option_table.h"

namespace posthorn::config {
namespace {

constexpr std::string_view kItem = "subscriptions[].";

// Optimal string alignment: a swap of neighbours is one mistake.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

const Option* FindOption(Document document, std::string_view path) {
  for (const Option& option : Options(document)) {
    if (option.path == path) return &option;
  }
  return nullptr;
}

bool AllowedInDefaults(std::string_view path_in_subscription) {
  return path_in_subscription != "name" && path_in_subscription != "topic" && path_in_subscription != "endpoint";
}

std::vector<std::string_view> KeysBelow(Document document, std::string_view section) {
  std::string_view prefix = section;
  const bool defaults =
      document == Document::kSubscriptions && (section == "defaults" || section.starts_with("defaults."));
  std::string in_item;
  if (defaults) {
    in_item = std::string(kItem) + std::string(section.substr(std::min(section.size(), std::size_t{9})));
    while (in_item.ends_with('.')) in_item.pop_back();
    prefix = in_item;
  }
  std::vector<std::string_view> keys;
  for (const Option& option : Options(document)) {
    std::string_view rest = option.path;
    if (!prefix.empty()) {
      if (!rest.starts_with(prefix) || rest.size() <= prefix.size() || rest[prefix.size()] != '.') continue;
      rest.remove_prefix(prefix.size() + 1);
    }
    if (rest.find_first_of(".[") != std::string_view::npos) continue;
    if (defaults && section == "defaults" && !AllowedInDefaults(rest)) continue;
    keys.push_back(rest);
  }
  return keys;
}

std::string TypeText(const Option& option) {
  switch (option.type) {
    case Type::kText:
      return "text";
    case Type::kPath:
      return "path";
    case Type::kName:
      return "name";
    case Type::kEnum: {
      std::string text;
      for (const Choice& choice : option.choices) {
        if (!text.empty()) text += " | ";
        text += choice.word;
      }
      return text;
    }
    case Type::kDuration:
      return "duration";
    case Type::kSize:
      return "size";
    case Type::kRate:
      return "rate";
    case Type::kInteger:
      return "integer";
    case Type::kNumber:
      return "number";
    case Type::kBool:
      return "true | false";
    case Type::kTextList:
      return "list of texts";
    case Type::kTextMap:
      return "map of texts";
    case Type::kSecret:
      return "secret text";
    case Type::kSecretMap:
      return "map of secret texts";
    case Type::kSection:
      return "map";
    case Type::kSections:
      return "list of maps";
    case Type::kNamed:
      return "map of names to maps";
  }
  return {};
}

std::string_view Nearest(std::string_view written, std::span<const std::string_view> known) {
  // Anything longer is no slip of a known key, and the comparison is quadratic.
  constexpr std::size_t kLongest = 64;
  if (written.size() > kLongest) return {};
  std::string_view nearest;
  std::size_t smallest = std::max<std::size_t>(2, written.size() / 2) + 1;
  for (const std::string_view word : known) {
    const std::size_t distance = Distance(written, word);
    if (distance < smallest && distance < std::max(word.size(), written.size())) {
      smallest = distance;
      nearest = word;
    }
  }
  return nearest;
}

}  // namespace posthorn::config
