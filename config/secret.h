#pragma once

#include <optional>
#include <string>

#include "config/environment.h"

namespace posthorn::config {

/// A text that is never shown: written out, or the file it stands in. A file is read whenever the text is used, so that
/// it can be replaced while the worker runs.
struct Secret {
  std::string value;
  std::string file;  // absolute; wins where it is set
  [[nodiscard]] bool empty() const { return value.empty() && file.empty(); }
  bool operator==(const Secret&) const = default;
};

/// What the secret is now, without the last line break of its file.
///
/// Errors  nullopt and one line in `*why`, which names the file and never its content: unreadable, empty, or with
///         control characters, which would break the header it is meant for.
std::optional<std::string> ReadSecret(const Secret& secret, std::string* why,
                                      const Environment& environment = SystemEnvironment());

}  // namespace posthorn::config
