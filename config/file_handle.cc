#include "config/file_handle.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace posthorn::config {

FileHandle::FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

bool FileHandle::Close() { return close(std::exchange(fd_, -1)) == 0; }

bool ReadToEnd(const FileHandle& file, std::size_t most, std::string* bytes) {
  std::array<char, 65536> buffer;
  while (bytes->size() <= most) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    bytes->append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace posthorn::config
