#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ratelimit/time.h"

namespace posthorn::config {

/// The documents of a revision as a source gave them.
struct KeptRevision {
  std::string source;  // which one, for people and for telling another one's revisions apart
  std::string number;  // see RawSnapshot
  ratelimit::WallTime taken;
  std::map<std::string, std::string> files;
  bool operator==(const KeptRevision&) const = default;
};

/// The last good revision on disk, for a start while the source is away: one file for the revision in force and one for
/// the one that will be at its `effective_at`. The documents are kept as they came: what they name by `file:` or as a
/// variable is not in them.
///
/// Files    `<name>.last-good` and `<name>.scheduled` in a directory that is made when it is missing; mode 0600. A file
///          is written aside, synced and renamed: after a crash the old or the new one is there whole. Several workers
///          may share them: each writes only what it has accepted.
/// Threads  Any: each writes whole files.
/// Errors   Values. A file that is cut short, changed or of a newer version counts as none, and a warning says so.
class LastGood {
 public:
  LastGood(std::filesystem::path directory, const std::string& name);

  struct Reading {
    std::optional<KeptRevision> in_force;
    std::optional<KeptRevision> scheduled;
    std::string warning;  // what counts as none although a file is there; empty: nothing does
  };
  [[nodiscard]] Reading Read() const;

  /// Writes both: a scheduled one that is not given is forgotten. Empty: done. Otherwise why not.
  [[nodiscard]] std::string Keep(const KeptRevision* in_force, const KeptRevision* scheduled) const;

 private:
  const std::filesystem::path directory_;
  const std::filesystem::path in_force_;
  const std::filesystem::path scheduled_;
};

}  // namespace posthorn::config
