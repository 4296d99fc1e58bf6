#pragma once

#include <functional>
#include <optional>
#include <string>

namespace posthorn::config {

/// What `${NAME}` and `file:/path` are resolved against. Tests bring their own; SystemEnvironment is the process's.
struct Environment {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  /// The file's bytes, or nothing and a reason in `why`.
  std::function<std::optional<std::string>(const std::string& path, std::string* why)> read_file;
};

/// The process's environment and files. `HOSTNAME`, which shells seldom export, falls back to the host's name.
/// Files above 1 MiB are refused.
const Environment& SystemEnvironment();

}  // namespace posthorn::config
