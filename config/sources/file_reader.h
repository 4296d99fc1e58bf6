#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace posthorn::config {

/// Whether a directory's entry is a document: `*.yaml`, `*.yml`, `*.json`, not hidden. Editors' backups (`f.yaml~`,
/// `.f.yaml.swp`, `#f.yaml#`) are none.
bool IsDocumentName(const std::string& name);

/// One reading of a file or of a directory's documents.
struct Reading {
  enum class State {
    kRead,
    kTorn,    // changed while it was read: try again
    kFailed,  // missing or unreadable, see `why`
  };
  State state = State::kFailed;
  std::map<std::string, std::string> files;
  std::string signature;  // of what was read; see LookAt
  std::string why;
};

/// Largest sum of a directory's documents; one document is bounded by kMaxDocumentBytes, which the loader reports.
inline constexpr std::size_t kMaxTotalBytes = 64u << 20;

/// Reads what `path` (absolute) names now. A directory is opened once, at its `..data` where it is a Kubernetes
/// volume, and everything is read through that handle; sizes, times and names must be the same before and after.
Reading ReadDocuments(const std::string& path);

/// Identity, sizes and times of what ReadDocuments would read, without reading it; equal texts: nothing has changed as
/// far as the file system's clock can tell.
std::string LookAt(const std::string& path);

/// Whether something was changed so shortly before `LookAt` that a second change could bear the same times.
bool ChangedJustNow(const std::string& path);

}  // namespace posthorn::config
