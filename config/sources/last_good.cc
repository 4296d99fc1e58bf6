#include "config/sources/last_good.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "config/file_handle.h"
#include "config/load.h"
#include "config/sources/file_reader.h"

namespace posthorn::config {
namespace {

constexpr std::string_view kHead = "posthorn revision 1 ";
// Both are bounds on what a source may give; a file beyond them is none of ours.
constexpr std::size_t kLargest = kMaxTotalBytes + (16u << 20);

std::string Checksum(std::string_view payload) { return Digest({{"", std::string(payload)}}); }

void Append(std::string& out, std::string_view text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

std::optional<std::string_view> Take(std::string_view& left) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), size);
  const auto digits = static_cast<std::size_t>(end - left.data());
  if (error != std::errc() || digits >= left.size() || *end != ':' || size > left.size() - digits - 1) {
    return std::nullopt;
  }
  const std::string_view text = left.substr(digits + 1, size);
  left.remove_prefix(digits + 1 + size);
  return text;
}

std::string Encode(const KeptRevision& revision) {
  std::string payload;
  Append(payload, revision.source);
  Append(payload, revision.number);
  Append(payload, std::to_string(revision.taken.time_since_epoch().count()));
  for (const auto& [name, bytes] : revision.files) {
    Append(payload, name);
    Append(payload, bytes);
  }
  return std::string(kHead) + Checksum(payload) + "\n" + payload;
}

std::optional<KeptRevision> Decode(std::string_view text) {
  const std::size_t line = text.find('\n');
  if (!text.starts_with(kHead) || line == std::string_view::npos) return std::nullopt;
  std::string_view left = text.substr(line + 1);
  if (text.substr(kHead.size(), line - kHead.size()) != Checksum(left)) return std::nullopt;
  KeptRevision revision;
  const auto source = Take(left);
  const auto number = Take(left);
  const auto taken = Take(left);
  if (!source || !number || !taken) return std::nullopt;
  ratelimit::Nanoseconds::rep ns = 0;
  if (std::from_chars(taken->data(), taken->data() + taken->size(), ns).ec != std::errc()) return std::nullopt;
  revision.source = *source;
  revision.number = *number;
  revision.taken = ratelimit::WallTime(ratelimit::Nanoseconds(ns));
  while (!left.empty()) {
    const auto name = Take(left);
    const auto bytes = Take(left);
    if (!name || !bytes) return std::nullopt;
    revision.files[std::string(*name)] = *bytes;
  }
  return revision;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string Because(const std::filesystem::path& file, int error) {
  return file.string() + ": " + std::strerror(error);
}

// Whole or not at all, also over a crash of the machine.
std::string WriteAtomically(const std::filesystem::path& file, std::string_view bytes) {
  // A name that nobody else writes to: whoever shares the directory may run in a container of its own, with our pid.
  std::string aside = file.string() + ".XXXXXX";
  {
    FileHandle out(mkostemp(aside.data(), O_CLOEXEC));
    if (!out.open()) return Because(aside, errno);
    const bool written = WriteAll(out.get(), bytes) && fsync(out.get()) == 0;
    if (!written || !out.Close()) {
      std::string why = Because(aside, errno);
      unlink(aside.c_str());
      return why;
    }
  }
  if (rename(aside.c_str(), file.c_str()) != 0) {
    std::string why = Because(file, errno);
    unlink(aside.c_str());
    return why;
  }
  const FileHandle directory(open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open() || fsync(directory.get()) != 0) return Because(file.parent_path(), errno);
  return {};
}

std::optional<KeptRevision> ReadKept(const std::filesystem::path& file, std::string& warning) {
  const auto warn = [&](const std::string& text) {
    if (!warning.empty()) warning += "; ";
    warning += text;
    return std::nullopt;
  };
  // Non-blocking: a pipe put in its place must not hold the start.
  const FileHandle in(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!in.open()) return errno == ENOENT ? std::nullopt : warn(Because(file, errno));
  std::string text;
  if (!ReadToEnd(in, kLargest, &text)) return warn(Because(file, errno));
  if (text.size() > kLargest) return warn(file.string() + ": too large");
  auto revision = Decode(text);
  if (!revision) return warn(file.string() + ": spoilt, or of another version");
  return revision;
}

}  // namespace

LastGood::LastGood(std::filesystem::path directory, const std::string& name)
    : directory_(std::move(directory)),
      in_force_(directory_ / (name + ".last-good")),
      scheduled_(directory_ / (name + ".scheduled")) {}

LastGood::Reading LastGood::Read() const {
  Reading reading;
  reading.in_force = ReadKept(in_force_, reading.warning);
  reading.scheduled = ReadKept(scheduled_, reading.warning);
  return reading;
}

std::string LastGood::Keep(const KeptRevision* in_force, const KeptRevision* scheduled) const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) return directory_.string() + ": " + error.message();
  std::string why;
  if (in_force != nullptr) why = WriteAtomically(in_force_, Encode(*in_force));
  if (scheduled != nullptr && why.empty()) why = WriteAtomically(scheduled_, Encode(*scheduled));
  if (scheduled == nullptr && unlink(scheduled_.c_str()) != 0 && errno != ENOENT) why = Because(scheduled_, errno);
  return why;
}

}  // namespace posthorn::config
