#include "tests/support/scripted_endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace posthorn::test {

namespace {

constexpr auto kPatience = std::chrono::seconds(30);

struct Listener {
  int fd;
  std::uint16_t port;
};

Listener Listen() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  if (fd < 0 || bind(fd, generic, size) != 0 || listen(fd, 1024) != 0 || getsockname(fd, generic, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  return {fd, ntohs(address.sin_port)};
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

struct ScriptedEndpoint::Impl {
  Listener listener = Listen();
  int stop_fd = eventfd(0, EFD_CLOEXEC);
  std::vector<Script> scripts;
  SSL_CTX* tls = nullptr;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<SeenRequest> requests;
  std::string sni;
  int accepted = 0;
  int ended = 0;
  std::vector<std::thread> connection_threads;
  std::thread accept_thread;

  void Accept();
  void SetUpTls(const EndpointTls& files);
};

class ScriptedEndpoint::Connection {
 public:
  Connection(Impl& impl, int fd, int number) : impl_(impl), fd_(fd), number_(number) {}
  ~Connection() {
    if (ssl_ != nullptr) {
      if (!reset_) SSL_shutdown(ssl_);
      SSL_free(ssl_);
    }
    if (reset_) {
      const linger now{1, 0};
      setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    close(fd_);
    ERR_clear_error();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Handshake() {
    if (impl_.tls == nullptr) return true;
    ssl_ = SSL_new(impl_.tls);
    SSL_set_fd(ssl_, fd_);
    if (!Await(POLLIN) || SSL_accept(ssl_) != 1) return false;
    const char* name = SSL_get_servername(ssl_, TLSEXT_NAMETYPE_host_name);
    const std::lock_guard lock(impl_.mutex);
    impl_.sni = name == nullptr ? "" : name;
    return true;
  }

  /// Until the socket is ready or the endpoint stops (false).
  bool Await(short events) {
    std::array<pollfd, 2> fds{{{fd_, events, 0}, {impl_.stop_fd, POLLIN, 0}}};
    return poll(fds.data(), fds.size(), -1) > 0 && fds[1].revents == 0;
  }

  bool Pause(std::chrono::milliseconds time) {
    pollfd stop{impl_.stop_fd, POLLIN, 0};
    return poll(&stop, 1, static_cast<int>(time.count())) == 0;
  }

  bool Fill() {
    std::array<char, 16384> block;
    if ((ssl_ == nullptr || SSL_pending(ssl_) == 0) && !Await(POLLIN)) return false;
    const auto count = ssl_ != nullptr ? static_cast<ssize_t>(SSL_read(ssl_, block.data(), block.size()))
                                       : recv(fd_, block.data(), block.size(), 0);
    if (count <= 0) return false;
    input_.append(block.data(), static_cast<std::size_t>(count));
    return true;
  }

  bool ReadRequest(SeenRequest* copy = nullptr) {
    std::size_t end;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return false;
    }
    SeenRequest request;
    request.connection = number_;
    std::size_t at = input_.find("\r\n");
    request.line = input_.substr(0, at);
    while (at < end) {
      const std::size_t next = input_.find("\r\n", at + 2);
      const std::string line = input_.substr(at + 2, next - at - 2);
      const std::size_t colon = line.find(':');
      std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
      value.erase(0, value.find_first_not_of(' '));
      request.headers.emplace_back(Lower(line.substr(0, colon)), value);
      at = next;
    }
    const std::string length = request.header("content-length");
    const std::size_t body = length[0] == '<' ? 0 : std::stoul(length);
    while (input_.size() < end + 4 + body) {
      if (!Fill()) return false;
    }
    request.body = input_.substr(end + 4, body);
    input_.erase(0, end + 4 + body);
    if (copy != nullptr) *copy = request;
    const std::lock_guard lock(impl_.mutex);
    impl_.requests.push_back(std::move(request));
    impl_.changed.notify_all();
    return true;
  }

  bool ReadHttp2Request() {
    constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    constexpr std::size_t kHead = 9;
    constexpr unsigned kEndStream = 1;
    const auto byte = [this](std::size_t at) { return static_cast<unsigned char>(input_[at]); };
    while (input_.size() < kPreface.size()) {
      if (!Fill()) return false;
    }
    if (input_.compare(0, kPreface.size(), kPreface) != 0) return false;
    input_.erase(0, kPreface.size());
    for (bool whole = false; !whole;) {
      while (input_.size() < kHead) {
        if (!Fill()) return false;
      }
      const std::size_t size = kHead + (std::size_t{byte(0)} << 16U) + (std::size_t{byte(1)} << 8U) + byte(2);
      while (input_.size() < size) {
        if (!Fill()) return false;
      }
      const bool of_a_request = byte(3) <= 1;  // DATA or HEADERS
      whole = of_a_request && (byte(4) & kEndStream) != 0;
      input_.erase(0, size);
    }
    SeenRequest request;
    request.line = "HTTP/2";
    request.connection = number_;
    const std::lock_guard lock(impl_.mutex);
    impl_.requests.push_back(std::move(request));
    impl_.changed.notify_all();
    return true;
  }

  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      if (!Await(POLLOUT)) return false;
      const auto count = ssl_ != nullptr
                             ? static_cast<ssize_t>(SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())))
                             : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  void ResetAtEnd() { reset_ = true; }

 private:
  Impl& impl_;
  int fd_;
  int number_;
  SSL* ssl_ = nullptr;
  bool reset_ = false;
  std::string input_;
};

void ScriptedEndpoint::Impl::SetUpTls(const EndpointTls& files) {
  tls = SSL_CTX_new(TLS_server_method());
  const bool good =
      SSL_CTX_use_certificate_chain_file(tls, files.certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(tls, files.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      (files.client_ca.empty() || SSL_CTX_load_verify_locations(tls, files.client_ca.c_str(), nullptr) == 1);
  if (!good) throw std::runtime_error("cannot use the test certificates");
  if (!files.client_ca.empty()) SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

void ScriptedEndpoint::Impl::Accept() {
  for (;;) {
    std::array<pollfd, 2> fds{{{listener.fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), -1) <= 0 || fds[1].revents != 0) return;
    const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;  // what a script sends is on its way before the script resets the connection
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex);
    const int number = accepted++;
    const Script& script = scripts[std::min(static_cast<std::size_t>(number), scripts.size() - 1)];
    connection_threads.emplace_back([this, fd, number, &script] {
      {
        Connection connection(*this, fd, number);
        bool go_on = connection.Handshake();
        for (std::size_t i = 0; go_on && i < script.size(); ++i) go_on = script[i](connection);
      }
      const std::lock_guard ended_lock(mutex);
      ++ended;
      changed.notify_all();
    });
  }
}

ScriptedEndpoint::ScriptedEndpoint(std::vector<Script> scripts, EndpointTls tls) : impl_(std::make_unique<Impl>()) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  impl_->scripts = std::move(scripts);
  if (!tls.certificate.empty()) impl_->SetUpTls(tls);
  impl_->accept_thread = std::thread([this] { impl_->Accept(); });
}

ScriptedEndpoint::~ScriptedEndpoint() {
  eventfd_write(impl_->stop_fd, 1);
  impl_->accept_thread.join();
  for (std::thread& thread : impl_->connection_threads) thread.join();
  close(impl_->listener.fd);
  close(impl_->stop_fd);
  SSL_CTX_free(impl_->tls);
}

std::uint16_t ScriptedEndpoint::port() const { return impl_->listener.port; }

std::string ScriptedEndpoint::url(std::string_view path) const {
  return (impl_->tls != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port()) +
         std::string(path);
}

std::vector<SeenRequest> ScriptedEndpoint::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->requests;
}

int ScriptedEndpoint::accepted() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->accepted;
}

std::string ScriptedEndpoint::last_sni() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->sni;
}

bool ScriptedEndpoint::AwaitRequests(std::size_t count) const {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, kPatience, [&] { return impl_->requests.size() >= count; });
}

bool ScriptedEndpoint::AwaitEnded(int count) const {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, kPatience, [&] { return impl_->ended >= count; });
}

ScriptedEndpoint::Step ScriptedEndpoint::Read() {
  return [](Connection& c) { return c.ReadRequest(); };
}

ScriptedEndpoint::Step ScriptedEndpoint::ReadHttp2() {
  return [](Connection& c) { return c.ReadHttp2Request(); };
}

ScriptedEndpoint::Step ScriptedEndpoint::Send(std::string bytes) {
  return [bytes = std::move(bytes)](Connection& c) { return c.Write(bytes); };
}

ScriptedEndpoint::Step ScriptedEndpoint::SendForever(std::string bytes) {
  return [bytes = std::move(bytes)](Connection& c) {
    while (c.Write(bytes)) {
    }
    return false;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::Drip(std::string bytes, std::chrono::milliseconds gap) {
  return [bytes = std::move(bytes), gap](Connection& c) {
    for (const char byte : bytes) {
      if (!c.Pause(gap) || !c.Write(std::string_view(&byte, 1))) return false;
    }
    return true;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::Hold() {
  return [](Connection& c) {
    while (c.Fill()) {
    }
    return false;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::Reset() {
  return [](Connection& c) {
    c.ResetAtEnd();
    return false;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::Serve(std::string answer) {
  return [answer = std::move(answer)](Connection& c) {
    while (c.ReadRequest() && c.Write(answer)) {
    }
    return false;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::Serve(Answering answer) {
  return [answer = std::move(answer)](Connection& c) {
    for (SeenRequest request; c.ReadRequest(&request);) {
      const auto bytes = answer(request);
      if (!bytes) return Hold()(c);
      if (!c.Write(*bytes)) return false;
    }
    return false;
  };
}

ScriptedEndpoint::Step ScriptedEndpoint::ServeInTurn(std::vector<std::string> answers) {
  struct Turn {
    std::mutex mutex;
    std::vector<std::string> answers;
    std::size_t next = 0;
  };
  const auto turn = std::make_shared<Turn>();
  turn->answers = std::move(answers);
  return Serve([turn](const SeenRequest&) -> std::optional<std::string> {
    const std::lock_guard lock(turn->mutex);
    if (turn->next == turn->answers.size()) return std::nullopt;
    return turn->answers[turn->next++];
  });
}

std::string SeenRequest::header(std::string_view name) const {
  std::string found = "<none>";
  for (const auto& [n, value] : headers) {
    if (n != name) continue;
    if (found != "<none>") return "<several>";
    found = value;
  }
  return found;
}

std::string Answer(int status, std::string_view more_headers) { return AnswerWith(status, {}, more_headers); }

std::string AnswerWith(int status, std::string_view body, std::string_view more_headers) {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\ncontent-length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more_headers) + "\r\n" + std::string(body);
}

std::string Http2Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string frame;
  for (const unsigned shift : {16U, 8U, 0U}) frame += static_cast<char>((payload.size() >> shift) & 0xFFU);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const unsigned shift : {24U, 16U, 8U, 0U}) frame += static_cast<char>((stream >> shift) & 0xFFU);
  return frame.append(payload);
}

std::uint16_t RefusingPort() {
  const Listener listener = Listen();
  close(listener.fd);
  return listener.port;
}

}  // namespace posthorn::test
