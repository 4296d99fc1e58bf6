#include "config/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "config/file_handle.h"

namespace posthorn::config {
namespace {

constexpr std::size_t kLargestSecret = 1u << 20;

std::optional<std::string> Variable(const std::string& name) {
  if (const char* value = std::getenv(name.c_str()); value != nullptr) return value;
  if (name == "HOSTNAME") {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) return host.data();
  }
  return std::nullopt;
}

std::optional<std::string> ReadFile(const std::string& path, std::string* why) {
  const auto fail = [&](const std::string& reason) -> std::optional<std::string> {
    if (why != nullptr) *why = reason;
    return std::nullopt;
  };
  // Non-blocking: a pipe put in the place of a secret must not hold the watch.
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.open() || fstat(file.get(), &info) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file");
  std::string bytes;
  if (!ReadToEnd(file, kLargestSecret, &bytes)) return fail(std::strerror(errno));
  if (bytes.size() > kLargestSecret) return fail("larger than 1MiB");
  return bytes;
}

}  // namespace

const Environment& SystemEnvironment() {
  static const Environment environment{&Variable, &ReadFile};
  return environment;
}

}  // namespace posthorn::config
