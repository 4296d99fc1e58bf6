#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace posthorn::config {

/// RFC 4648 with padding, as etcd's gateway writes bytes.
std::string EncodeBase64(std::string_view bytes);
std::optional<std::string> DecodeBase64(std::string_view text);  // nullopt: it is none

}  // namespace posthorn::config
