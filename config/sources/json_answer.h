#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace boost::json {
class value;
}

namespace posthorn::config {

/// What the JSON of a server's answers is asked for. Unknown members are not looked at, so newer servers may add some.
///
/// Errors  Never an exception: what is missing or of another type is as if it were absent.

/// The whole text as one value, nested at most 64 deep; nullopt: it is none.
std::optional<boost::json::value> ParseJson(std::string_view text);

/// Member `key` of an object; null when there is none.
const boost::json::value* Member(const boost::json::value& value, std::string_view key);

std::string TextMember(const boost::json::value& value, std::string_view key);  // empty: absent

/// Also a number written as text, as gateways to gRPC do with 64 bits.
std::optional<std::int64_t> NumberMember(const boost::json::value& value, std::string_view key);
bool TrueMember(const boost::json::value& value, std::string_view key);

/// The value as a document for people: indented by two blanks, so that a fault's line means something, numbers in their
/// shortest form.
std::string ToDocument(const boost::json::value& value);

/// What a server says of itself, cut and cleaned for a line of the log.
std::string ShownText(std::string_view text);

}  // namespace posthorn::config
