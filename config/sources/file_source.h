#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "config/sources/source.h"

namespace posthorn::config {

struct FileSourceOptions {
  std::chrono::milliseconds settle{20};  // quiet time after a change before it is read
  std::chrono::milliseconds poll{1000};  // between looks of its own, for changes inotify does not tell
  bool inotify = true;                   // false: as if no inotify instance were left
};

/// One file, or the `*.yaml`, `*.yml` and `*.json` of one directory (hidden files and editors' backups aside).
///
/// Watches every directory on the way to the files, through symbolic links: a file replaced by rename, a Kubernetes
/// ConfigMap whose `..data` is swapped, a link set anew, a directory removed and back are all seen. A directory is
/// opened once per reading and its files are read through it, so that a swap in between mixes nothing; what changes
/// while it is read is read again. Sizes and times are compared once per `poll` besides, which is all that happens on
/// file systems where inotify is silent, and when no inotify instance is left.
///
/// Time    A change is returned about `settle` after its last event; one that inotify does not tell after `poll`. A
///         writer that keeps its file open, or has emptied it, is waited for, at most half a second.
/// Errors  A missing or unreadable path is Failed once, then waited for.
/// Cost    A few stat calls per file and `poll`.
class FileSource final : public Source {
 public:
  explicit FileSource(const std::filesystem::path& path, FileSourceOptions options = {});
  ~FileSource() override;

  Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) override;
  std::string Describe() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::config
