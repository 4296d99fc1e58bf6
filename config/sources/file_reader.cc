#include "config/sources/file_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "config/file_handle.h"
#include "config/load.h"

namespace posthorn::config {
namespace {

std::string Stamp(const struct stat& info) {
  const auto part = [](auto number) { return std::to_string(number) + ":"; };
  return part(info.st_dev) + part(info.st_ino) + part(info.st_size) + part(info.st_mtim.tv_sec) +
         part(info.st_mtim.tv_nsec) + part(info.st_ctim.tv_sec) + part(info.st_ctim.tv_nsec);
}

struct Entry {
  std::string name;
  std::string stamp;  // empty: a link to nowhere
  bool regular = false;
};

// The directory itself, or the data of a Kubernetes volume: only its `..data` is one revision.
FileHandle OpenDirectory(const std::string& path) {
  FileHandle outer(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!outer.open()) return outer;
  FileHandle data(openat(outer.get(), "..data", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (data.open()) return data;
  return outer;
}

std::vector<Entry> List(const FileHandle& directory) {
  std::vector<Entry> entries;
  // A descriptor of its own: closing the stream closes it, and the position is not shared.
  const int fd = openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = fd >= 0 ? fdopendir(fd) : nullptr;
  if (stream == nullptr) {
    if (fd >= 0) close(fd);
    return entries;
  }
  while (const dirent* item = readdir(stream)) {
    Entry entry{item->d_name, "", false};
    if (!IsDocumentName(entry.name)) continue;
    struct stat info {};
    if (fstatat(directory.get(), item->d_name, &info, 0) == 0) {
      entry.stamp = Stamp(info);
      entry.regular = S_ISREG(info.st_mode);
      if (!entry.regular) continue;
    }
    entries.push_back(std::move(entry));
  }
  closedir(stream);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

std::string ToSignature(const std::vector<Entry>& entries) {
  std::string out = "directory";
  for (const Entry& entry : entries) out += "/" + entry.name + "=" + entry.stamp;
  return out;
}

struct FileReading {
  Reading::State state = Reading::State::kFailed;
  std::string bytes;
  std::string stamp;
  std::string why;
};

FileReading ReadFile(int directory, const char* name) {
  FileReading result;
  const FileHandle file(openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat before {};
  if (!file.open() || fstat(file.get(), &before) != 0) {
    result.why = std::strerror(errno);
    return result;
  }
  if (!S_ISREG(before.st_mode)) {
    result.why = "not a regular file";
    return result;
  }
  // Of a larger one the loader says so.
  if (!ReadToEnd(file, kMaxDocumentBytes, &result.bytes)) {
    result.why = std::strerror(errno);
    return result;
  }
  struct stat after {};
  const bool same =
      fstat(file.get(), &after) == 0 && Stamp(before) == Stamp(after) &&
      (result.bytes.size() > kMaxDocumentBytes || static_cast<std::size_t>(after.st_size) == result.bytes.size());
  result.state = same ? Reading::State::kRead : Reading::State::kTorn;
  result.stamp = Stamp(after);
  return result;
}

bool SameDirectory(const FileHandle& a, const FileHandle& b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a.get(), &of_a) == 0 && fstat(b.get(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

Reading ReadDirectory(const FileHandle& directory, const std::string& path) {
  Reading result;
  const std::vector<Entry> entries = List(directory);
  std::size_t total = 0;
  std::string dangling;
  for (const Entry& entry : entries) {
    FileReading file = ReadFile(directory.get(), entry.name.c_str());
    if (file.state == Reading::State::kFailed) {
      // Told below, unless it was only so for the moment of the reading.
      if (dangling.empty()) dangling = entry.name + ": " + file.why;
      continue;
    }
    if (file.state == Reading::State::kTorn || file.stamp != entry.stamp) {
      result.state = Reading::State::kTorn;
      return result;
    }
    total += file.bytes.size();
    if (total > kMaxTotalBytes) {
      result.why = "the documents are larger than 64MiB together";
      return result;
    }
    result.files[entry.name] = std::move(file.bytes);
  }
  result.signature = ToSignature(entries);
  // A revision that was swapped away is deleted file by file: its rest must not pass for the whole.
  const bool replaced = !SameDirectory(directory, OpenDirectory(path));
  if (replaced || ToSignature(List(directory)) != result.signature) {
    result.state = Reading::State::kTorn;
  } else if (!dangling.empty()) {
    result.why = dangling;
  } else {
    result.state = Reading::State::kRead;
  }
  return result;
}

}  // namespace

bool IsDocumentName(const std::string& name) {
  if (name.starts_with('.') || name.starts_with('#')) return false;
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

Reading ReadDocuments(const std::string& path) {
  const FileHandle directory = OpenDirectory(path);
  if (directory.open()) return ReadDirectory(directory, path);
  Reading result;
  FileReading file = ReadFile(AT_FDCWD, path.c_str());
  result.state = file.state;
  result.why = std::move(file.why);
  if (file.state == Reading::State::kRead) {
    result.signature = "file=" + file.stamp;
    result.files[path.substr(path.rfind('/') + 1)] = std::move(file.bytes);
  }
  return result;
}

std::string LookAt(const std::string& path) {
  const FileHandle directory = OpenDirectory(path);
  if (directory.open()) return ToSignature(List(directory));
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "missing: " + std::to_string(errno);
  return "file=" + Stamp(info);
}

bool ChangedJustNow(const std::string& path) {
  // File systems stamp with the timer's tick, 1 to 10 ms.
  constexpr std::int64_t kTick = 100'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto recent = [&](const struct stat& info) {
    const std::int64_t age = (now.tv_sec - info.st_mtim.tv_sec) * 1'000'000'000 + now.tv_nsec - info.st_mtim.tv_nsec;
    return age < kTick;
  };
  const FileHandle directory = OpenDirectory(path);
  struct stat info {};
  if (!directory.open()) return stat(path.c_str(), &info) == 0 && recent(info);
  for (const Entry& entry : List(directory)) {
    if (fstatat(directory.get(), entry.name.c_str(), &info, 0) == 0 && recent(info)) return true;
  }
  return false;
}

}  // namespace posthorn::config
