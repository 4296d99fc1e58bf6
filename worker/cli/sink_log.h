#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace posthorn::cli {

/// Appends lines to a file or stdout, in batches.
/// Threads  One at a time.
class SinkLog {
 public:
  SinkLog() = default;
  ~SinkLog();
  SinkLog(const SinkLog&) = delete;
  SinkLog& operator=(const SinkLog&) = delete;

  /// `path` `-`: stdout. The file is appended to. Errors: false and why.
  [[nodiscard]] bool Open(const std::string& path, std::string* why);
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  /// The text of the line being built; EndLine ends it.
  [[nodiscard]] std::string& line() { return buffer_; }
  void EndLine();
  void Flush();

 private:
  static constexpr std::size_t kBatch = 64u << 10;
  int fd_ = -1;
  bool owned_ = false;
  std::string buffer_;
};

/// Appends `text` as a JSON string with its quotes. Bytes that are no ASCII are written as they are, controls escaped.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace posthorn::cli
