#include "worker/cli/sink_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace posthorn::cli {

SinkLog::~SinkLog() {
  Flush();
  if (owned_) close(fd_);
}

bool SinkLog::Open(const std::string& path, std::string* why) {
  if (path == "-") {
    fd_ = STDOUT_FILENO;
    return true;
  }
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  owned_ = fd_ >= 0;
  if (fd_ < 0 && why != nullptr) *why = "cannot write " + path + ": " + std::strerror(errno);
  return fd_ >= 0;
}

void SinkLog::EndLine() {
  buffer_.push_back('\n');
  if (buffer_.size() >= kBatch) Flush();
}

void SinkLog::Flush() {
  std::string_view rest = buffer_;
  while (fd_ >= 0 && !rest.empty()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // the reader is gone or the disk is full: what does not fit is dropped, answers go on
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void AppendJsonString(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      out.append("\\u00");
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace posthorn::cli
