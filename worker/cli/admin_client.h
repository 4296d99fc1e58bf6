#pragma once

#include <optional>
#include <string>

namespace posthorn::cli {

/// One GET to a worker's admin address (host:port). The body of a 200, nothing otherwise. Blocks at most about 2 s.
[[nodiscard]] std::optional<std::string> GetFromAdmin(const std::string& address, const std::string& path);

}  // namespace posthorn::cli
