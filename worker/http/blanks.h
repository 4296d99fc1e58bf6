#pragma once

// Private to this room.

#include <string_view>

namespace posthorn::http {

/// Without the blanks around it, which in a header mean nothing.
inline std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace posthorn::http
