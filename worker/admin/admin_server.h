#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::admin {

/// A request for a page: the path it was registered under and the decoded query.
struct Request {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
  /// The first value of that name; null when there is none.
  [[nodiscard]] const std::string* Query(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// A small HTTP/1.1 server for operators: fixed paths, GET and HEAD, short answers.
///
/// Knows no room; admin_pages.h joins the pages to it.
/// Threads  One of its own, named `admin`: every handler and the tick run there, one at a time. Handle, OnTick, Start
///          and Stop from the owner.
/// Errors   Start tells why it cannot listen. A handler that throws makes a 500. Whatever a client sends or does not
///          send costs it its connection, nothing else.
/// Cost     At most `max_connections` at once: one more closes the one that has been silent for longest.
class AdminServer {
 public:
  using Handler = std::function<Response(const Request&)>;

  struct Options {
    std::size_t max_request_bytes = 8 * 1024;         // line and headers; a body is refused
    std::chrono::milliseconds request_timeout{5000};  // from the first byte of a request to its end
    std::chrono::milliseconds write_timeout{30'000};  // of one answer
    std::chrono::milliseconds idle_timeout{75'000};   // a kept connection without a request
    std::size_t max_connections = 64;
    std::chrono::milliseconds tick{1000};
  };

  /// `address` is host:port ([::1]:port for IPv6); port 0 picks a free one.
  explicit AdminServer(std::string address) : AdminServer(std::move(address), Options{}) {}
  AdminServer(std::string address, Options options);
  ~AdminServer();  // stops
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  /// Before Start. A query is not part of the path.
  void Handle(std::string path, Handler handler);
  /// Before Start: called every `Options::tick` and right at the start.
  void OnTick(std::function<void()> tick);

  /// Listens, logs `admin listening` with the address, and starts the thread. False and `*why` when it cannot.
  [[nodiscard]] bool Start(std::string* why);
  /// Closes every connection and ends the thread, once a handler that is running has returned. Idempotent.
  void Stop();

  /// host:port with the port in use; empty before Start.
  [[nodiscard]] const std::string& listening() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::admin
