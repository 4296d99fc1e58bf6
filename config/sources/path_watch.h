#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::config {

/// Tells that what a path leads to may have changed: inotify watches on every directory on the way to it, through
/// symbolic links, and on the directory itself when the path names one. It only wakes; the truth is a new reading.
///
/// Errors  Where a watch cannot be had (no instance left, no right to read) it stays silent; callers look themselves
///         from time to time.
class PathWatch {
 public:
  explicit PathWatch(bool enabled);
  ~PathWatch();
  PathWatch(const PathWatch&) = delete;
  PathWatch& operator=(const PathWatch&) = delete;

  /// For poll(2); -1: silent.
  [[nodiscard]] int descriptor() const { return inotify_; }

  /// Follows `path` (absolute) as it is now and watches exactly what it passes. Events from then on are kept for Drain.
  void Follow(const std::string& path);

  /// Takes the events that are waiting. True: at least one concerns the path.
  bool Drain();

  /// Somebody has written and not closed yet.
  [[nodiscard]] bool Writing() const { return !writing_.empty(); }
  void ForgetWriting() { writing_.clear(); }

 private:
  struct Watched {
    std::set<std::string> names;  // entries that lie on the way
    bool documents = false;       // the directory itself is read
    std::uint32_t mask = 0;
  };
  using Plan = std::map<std::string, Watched>;  // by directory

  static Plan MakePlan(const std::string& path);
  bool Concerns(int watch, std::uint32_t mask, const std::string& name);

  int inotify_ = -1;
  std::map<int, Watched> watched_;
  std::set<std::pair<int, std::string>> writing_;
};

}  // namespace posthorn::config
