#pragma once

#include <cstddef>
#include <string>

namespace posthorn::config {

/// An open file or directory, closed when this goes.
class FileHandle {
 public:
  /// `fd`: what open() returned, also where it failed; then errno is as open() left it.
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&&) = delete;
  ~FileHandle();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  /// False: what was written may be lost, and errno says why.
  [[nodiscard]] bool Close();

 private:
  int fd_;
};

/// Appends what is left of a file to `bytes`: up to its end, or until `bytes` holds more than `most`. False: it cannot
/// be read, and errno says why. Blocks as read() does.
[[nodiscard]] bool ReadToEnd(const FileHandle& file, std::size_t most, std::string* bytes);

}  // namespace posthorn::config
