#include "worker/cli/minimal_sink.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace posthorn::cli {

namespace {

constexpr std::string_view kAnswer = "HTTP/1.1 204 No Content\r\n\r\n";

struct Connection {
  std::string input;
  std::size_t skip = 0;  // bytes of a body still to come
};

/// Length of the body a request head announces.
std::size_t BodyLength(std::string_view head) {
  constexpr std::string_view kName = "content-length:";
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
    std::string_view line = head.substr(at + 2);
    if (line.size() < kName.size() || strncasecmp(line.data(), kName.data(), kName.size()) != 0) continue;
    line.remove_prefix(kName.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    std::size_t length = 0;
    std::from_chars(line.data(), line.data() + line.size(), length);
    return length;
  }
  return 0;
}

/// Takes whole requests off the input. Returns how many.
std::size_t TakeRequests(Connection& c) {
  std::size_t count = 0;
  std::size_t at = 0;
  for (;;) {
    const std::size_t skipped = std::min(c.skip, c.input.size() - at);
    at += skipped;
    c.skip -= skipped;
    if (c.skip != 0) break;
    const std::size_t end = c.input.find("\r\n\r\n", at);
    if (end == std::string::npos) break;
    c.skip = BodyLength(std::string_view(c.input).substr(at, end - at));
    at = end + 4;
    ++count;
  }
  c.input.erase(0, at);
  return count;
}

}  // namespace

struct MinimalSink::Impl {
  int listener = -1;
  int stop = eventfd(0, EFD_CLOEXEC);
  int poll = epoll_create1(EPOLL_CLOEXEC);
  std::uint16_t port = 0;
  std::string host;
  std::thread thread;
  std::atomic<std::uint64_t> requests{0};
  std::unordered_map<int, Connection> connections;

  ~Impl() {
    for (const auto& [fd, connection] : connections) close(fd);
    for (const int fd : {listener, stop, poll}) {
      if (fd >= 0) close(fd);
    }
  }

  void Watch(int fd) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  }

  void Serve();
  void AcceptAll();
  [[nodiscard]] bool ReadAndAnswer(int fd, Connection& connection);
};

void MinimalSink::Impl::AcceptAll() {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connections[fd];
    Watch(fd);
  }
}

bool MinimalSink::Impl::ReadAndAnswer(int fd, Connection& connection) {
  std::array<char, 16384> block;
  const ssize_t count = recv(fd, block.data(), block.size(), 0);
  if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
  connection.input.append(block.data(), static_cast<std::size_t>(count));
  const std::size_t taken = TakeRequests(connection);
  requests.fetch_add(taken, std::memory_order_relaxed);
  // Answers are short: a client that does not read even these is closed.
  for (std::size_t i = 0; i < taken; ++i) {
    if (send(fd, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kAnswer.size())) return false;
  }
  return true;
}

void MinimalSink::Impl::Serve() {
  std::array<epoll_event, 256> events;
  for (;;) {
    const int count = epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == stop) return;
      if (fd == listener) {
        AcceptAll();
      } else if (!ReadAndAnswer(fd, connections[fd])) {
        connections.erase(fd);
        close(fd);
      }
    }
  }
}

MinimalSink::MinimalSink() : impl_(std::make_unique<Impl>()) {}

MinimalSink::~MinimalSink() { Stop(); }

bool MinimalSink::Start(const std::string& listen_on, std::string* why) {
  const std::size_t colon = listen_on.rfind(':');
  impl_->host = listen_on.substr(0, colon);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  bool good = colon != std::string::npos && inet_pton(AF_INET, impl_->host.c_str(), &address.sin_addr) == 1;
  if (good) {
    std::from_chars(listen_on.data() + colon + 1, listen_on.data() + listen_on.size(), impl_->port);
    address.sin_port = htons(impl_->port);
  }
  socklen_t size = sizeof(address);
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  const int on = 1;
  impl_->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  good = good && setsockopt(impl_->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
         bind(impl_->listener, generic, size) == 0 && listen(impl_->listener, 4096) == 0 &&
         getsockname(impl_->listener, generic, &size) == 0;
  if (!good) {
    *why = "cannot listen on " + listen_on;
    return false;
  }
  impl_->port = ntohs(address.sin_port);
  impl_->Watch(impl_->listener);
  impl_->Watch(impl_->stop);
  impl_->thread = std::thread([this] { impl_->Serve(); });
  return true;
}

void MinimalSink::Stop() {
  if (!impl_->thread.joinable()) return;
  eventfd_write(impl_->stop, 1);
  impl_->thread.join();
}

std::string MinimalSink::address() const { return impl_->host + ":" + std::to_string(impl_->port); }

std::uint64_t MinimalSink::requests() const { return impl_->requests.load(std::memory_order_relaxed); }

}  // namespace posthorn::cli
