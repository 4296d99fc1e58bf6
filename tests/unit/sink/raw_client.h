#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace posthorn::test {

/// A blocking client that sends bytes as they are.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected_ = connect(fd_, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof(address)) == 0;
    const timeval patience{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  /// One answer, head and body in one text. Empty: the connection ended first.
  std::string Receive() {
    std::size_t end;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return {};
    }
    std::size_t body = 0;
    const std::size_t length = input_.find("content-length: ");
    if (length < end) std::from_chars(input_.data() + length + 16, input_.data() + end, body);
    while (input_.size() < end + 4 + body) {
      if (!Fill()) return {};
    }
    std::string answer = input_.substr(0, end + 4 + body);
    input_.erase(0, answer.size());
    return answer;
  }

  std::string Ask(std::string_view request) {
    Send(request);
    return Receive();
  }

  /// True when the other side has closed and sent nothing more.
  bool AtEnd() { return input_.empty() && !Fill(); }

 private:
  bool Fill() {
    std::array<char, 65536> block;
    const ssize_t count = recv(fd_, block.data(), block.size(), 0);
    if (count <= 0) return false;
    input_.append(block.data(), static_cast<std::size_t>(count));
    return true;
  }

  int fd_;
  bool connected_ = false;
  std::string input_;
};

inline std::string Post(std::string_view path, std::string_view body, std::string_view headers = {}) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nhost: x\r\ncontent-length: " + std::to_string(body.size()) +
         "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

}  // namespace posthorn::test
