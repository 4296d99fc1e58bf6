#include "config/sources/json_answer.h"

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>

namespace posthorn::config {
namespace {

constexpr std::size_t kMostNesting = 64;
constexpr std::size_t kMostShown = 200;

void Write(const boost::json::value& value, std::string* out, std::size_t depth) {
  const auto new_line = [out](std::size_t blanks) { out->append("\n").append(2 * blanks, ' '); };
  if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
    *out += '{';
    bool first = true;
    for (const auto& member : *object) {
      if (!std::exchange(first, false)) *out += ',';
      new_line(depth + 1);
      *out += boost::json::serialize(member.key()) + ": ";
      Write(member.value(), out, depth + 1);
    }
    new_line(depth);
    *out += '}';
  } else if (const auto* array = value.if_array(); array != nullptr && !array->empty()) {
    *out += '[';
    bool first = true;
    for (const auto& item : *array) {
      if (!std::exchange(first, false)) *out += ',';
      new_line(depth + 1);
      Write(item, out, depth + 1);
    }
    new_line(depth);
    *out += ']';
  } else if (value.is_double()) {
    std::array<char, 64> digits{};  // Boost.JSON would write 1.1 as 1.1E0
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value.get_double());
    out->append(digits.data(), written.ptr);
  } else {
    *out += boost::json::serialize(value);
  }
}

}  // namespace

std::optional<boost::json::value> ParseJson(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = kMostNesting;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return std::nullopt;
  return value;
}

const boost::json::value* Member(const boost::json::value& value, std::string_view key) {
  const auto* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains({key.data(), key.size()});
}

std::string TextMember(const boost::json::value& value, std::string_view key) {
  const auto* member = Member(value, key);
  const auto* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : std::string(text->data(), text->size());
}

std::optional<std::int64_t> NumberMember(const boost::json::value& value, std::string_view key) {
  const auto* member = Member(value, key);
  if (member == nullptr) return std::nullopt;
  if (const auto* number = member->if_int64()) return *number;
  const auto* text = member->if_string();
  if (text == nullptr) return std::nullopt;
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

bool TrueMember(const boost::json::value& value, std::string_view key) {
  const auto* member = Member(value, key);
  const bool* flag = member == nullptr ? nullptr : member->if_bool();
  return flag != nullptr && *flag;
}

std::string ToDocument(const boost::json::value& value) {
  std::string out;
  Write(value, &out, 0);
  out += '\n';
  return out;
}

std::string ShownText(std::string_view text) {
  std::string out(text.substr(0, kMostShown));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  while (out.ends_with(' ')) out.pop_back();
  return text.size() > kMostShown ? out + "..." : out;
}

}  // namespace posthorn::config
