#include "config/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

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
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(std::strerror(errno));
  struct stat info {};
  std::string bytes;
  std::string fault;
  if (fstat(fd, &info) != 0) {
    fault = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    fault = "not a regular file";
  } else {
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t got = read(fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fault = std::strerror(errno);
      if (got <= 0) break;
      bytes.append(buffer.data(), static_cast<std::size_t>(got));
      if (bytes.size() > kLargestSecret) {
        fault = "larger than 1MiB";
        break;
      }
    }
  }
  close(fd);
  if (!fault.empty()) return fail(fault);
  return bytes;
}

}  // namespace

const Environment& SystemEnvironment() {
  static const Environment environment{&Variable, &ReadFile};
  return environment;
}

}  // namespace posthorn::config
