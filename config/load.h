#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/fault.h"
#include "config/model.h"

namespace posthorn::config {

/// What this build and its libraries can do; what they cannot is refused, never ignored.
struct Capabilities {
  bool http2 = false;
  std::string http2_reason = "libcurl 8.1 or newer is needed";
};

/// Largest document that is read at all.
inline constexpr std::size_t kMaxDocumentBytes = 16u << 20;

/// A value, or every fault that stands against it.
template <typename T>
struct Loaded {
  std::optional<T> value;
  std::vector<Fault> faults;  // in the order of files and lines; empty exactly when `value` is there
  explicit operator bool() const { return value.has_value(); }
};

/// Reads the deployment file and lays `overrides` (`key=value`, as of `--set`) over it. A relative
/// `subscriptions.file` or `cache` means beside the deployment file, one given by an override means as it stands.
///
/// Errors  Faults only, never an exception: an unreadable file is a fault too.
Loaded<Deployment> LoadDeployment(const std::filesystem::path& file, const std::vector<std::string>& overrides = {},
                                  const Environment& environment = SystemEnvironment());

/// The same from text; `file` is the name in faults, and a relative `subscriptions.file` stays as it is.
Loaded<Deployment> LoadDeploymentText(std::string_view file, std::string_view text,
                                      const std::vector<std::string>& overrides = {},
                                      const Environment& environment = SystemEnvironment());

/// One revision from its documents, file name -> bytes (YAML or JSON). Lists are joined; `instances`, `effective_at`,
/// `defaults` and `allow_empty` may stand in one document only. `source_revision` of the result is left empty.
///
/// Errors  Faults only, never an exception.
/// Cost    Linear in the bytes; about 50 ms for 1 000 subscriptions, most of it the YAML parser.
Loaded<Snapshot> LoadSubscriptions(const std::map<std::string, std::string>& files,
                                   const Capabilities& capabilities = {},
                                   const Environment& environment = SystemEnvironment());

/// A line of advice about an `effective_at` that is far ahead of `now`; empty: there is none, or it is near.
std::string FarAheadNote(const Snapshot& snapshot, ratelimit::WallTime now);

/// Which of the two files a text is, told by its top-level keys. One that is neither counts as subscriptions.
bool LooksLikeDeployment(std::string_view text);

/// Short hex SHA-256 of names and bytes. For equality only.
std::string Digest(const std::map<std::string, std::string>& files);

}  // namespace posthorn::config
