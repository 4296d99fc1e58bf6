#include "config/sources/path_watch.h"

#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <deque>
#include <optional>

#include "config/sources/file_reader.h"

namespace posthorn::config {
namespace {

constexpr std::uint32_t kEntries = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF;
constexpr std::uint32_t kContent = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB;
constexpr int kMostLinks = 40;  // as the kernel

std::string Below(const std::string& directory, const std::string& name) {
  return directory == "/" ? "/" + name : directory + "/" + name;
}

std::deque<std::string> Components(const std::string& path) {
  std::deque<std::string> parts(1);
  for (const char c : path) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<std::string> LinkTarget(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  if (size <= 0) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(size));
}

// Where a path leads, step by step; `visit(directory, name, is_last_file)` for each entry that is passed. Returns the
// directory it ends at, or nothing when it ends at a file or breaks off.
template <typename Visit>
std::optional<std::string> Walk(std::string at, const std::string& path, Visit&& visit) {
  std::deque<std::string> pending = Components(path);
  int links = 0;
  while (!pending.empty()) {
    const std::string name = std::move(pending.front());
    pending.pop_front();
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      const std::size_t slash = at.rfind('/');
      at = slash == 0 || slash == std::string::npos ? "/" : at.substr(0, slash);
      continue;
    }
    const std::string here = Below(at, name);
    struct stat info {};
    const bool there = lstat(here.c_str(), &info) == 0;
    if (there && S_ISDIR(info.st_mode)) {
      visit(at, name, false);
      at = here;
      continue;
    }
    const auto target = there && S_ISLNK(info.st_mode) ? LinkTarget(here) : std::nullopt;
    visit(at, name, !target);
    if (!target || ++links > kMostLinks) return std::nullopt;
    if (target->starts_with('/')) at = "/";
    std::deque<std::string> more = Components(*target);
    pending.insert(pending.begin(), more.begin(), more.end());
  }
  return at;
}

std::set<std::string> LinkedDocuments(const std::string& directory) {
  std::set<std::string> names;
  DIR* stream = opendir(directory.c_str());
  if (stream == nullptr) return names;
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    const bool maybe_link = entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
    if (maybe_link && (IsDocumentName(name) || name == "..data")) names.insert(name);
  }
  closedir(stream);
  return names;
}

}  // namespace

PathWatch::PathWatch(bool enabled) {
  if (enabled) inotify_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

PathWatch::~PathWatch() {
  if (inotify_ >= 0) close(inotify_);
}

PathWatch::Plan PathWatch::MakePlan(const std::string& path) {
  Plan plan;
  const auto pass = [&](const std::string& directory, const std::string& name, bool file) {
    Watched& watched = plan[directory];
    watched.names.insert(name);
    watched.mask |= file ? kEntries | kContent : kEntries;
  };
  const auto end = Walk("/", path, pass);
  if (!end) return plan;
  Watched& watched = plan[*end];
  watched.documents = true;
  watched.mask |= kEntries | kContent;
  for (const std::string& name : LinkedDocuments(*end)) {
    const auto inner = Walk(*end, name, pass);
    if (name != "..data" || !inner) continue;
    plan[*inner].documents = true;
    plan[*inner].mask |= kEntries | kContent;
  }
  return plan;
}

void PathWatch::Follow(const std::string& path) {
  if (inotify_ < 0) return;
  // What changes between the walk and the watch would go unseen: done when a walk after the watches finds the same.
  constexpr int kMostTries = 8;
  for (int i = 0; i < kMostTries; ++i) {
    const Plan plan = MakePlan(path);
    std::map<int, Watched> watched;
    for (const auto& [directory, what] : plan) {
      const int watch = inotify_add_watch(inotify_, directory.c_str(), what.mask | IN_ONLYDIR);
      if (watch < 0) continue;
      Watched& entry = watched[watch];
      entry.names.insert(what.names.begin(), what.names.end());
      entry.documents = entry.documents || what.documents;
    }
    for (const auto& [watch, what] : watched_) {
      if (!watched.contains(watch)) inotify_rm_watch(inotify_, watch);
    }
    watched_ = std::move(watched);
    const Plan again = MakePlan(path);
    const auto same = [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.names == b.second.names && a.second.documents == b.second.documents;
    };
    if (plan.size() == again.size() && std::equal(plan.begin(), plan.end(), again.begin(), same)) return;
  }
}

bool PathWatch::Concerns(int watch, std::uint32_t mask, const std::string& name) {
  if ((mask & IN_Q_OVERFLOW) != 0) return true;
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return false;
  if ((mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) return true;
  const Watched& watched = found->second;
  const bool document = watched.documents && (IsDocumentName(name) || name.starts_with(".."));
  if (!document && !watched.names.contains(name)) return false;
  if ((mask & IN_MODIFY) != 0) writing_.emplace(watch, name);
  if ((mask & (IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)) != 0) writing_.erase({watch, name});
  return true;
}

bool PathWatch::Drain() {
  if (inotify_ < 0) return false;
  bool concerns = false;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = read(inotify_, buffer.data(), buffer.size());
    if (size <= 0) return concerns;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* name = buffer.data() + at + sizeof(event);
      const std::string text = event.len > 0 ? std::string(name) : std::string();
      if (Concerns(event.wd, event.mask, text)) concerns = true;
      at += sizeof(event) + event.len;
    }
  }
}

}  // namespace posthorn::config
