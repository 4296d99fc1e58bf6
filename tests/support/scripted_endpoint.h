#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::test {

/// A request as the endpoint read it.
struct SeenRequest {
  std::string line;                                          // "POST /path HTTP/1.1"
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, in order
  std::string body;
  int connection = 0;  // from 0, in the order of acceptance

  /// The value of the only header of that name; "<none>" or "<several>" otherwise.
  [[nodiscard]] std::string header(std::string_view name) const;
};

struct EndpointTls {
  std::string certificate;  // files
  std::string key;
  std::string client_ca;  // empty: no client certificate is asked for
};

/// A raw server on 127.0.0.1 that does to each connection exactly what its script says.
///
/// Threads  Its own, one per connection. All members from any thread.
class ScriptedEndpoint {
 public:
  class Connection;
  /// One thing to do; false ends the connection.
  using Step = std::function<bool(Connection&)>;
  using Script = std::vector<Step>;

  /// The n-th connection follows the n-th script, later ones the last. When a script is through, the connection closes.
  explicit ScriptedEndpoint(std::vector<Script> scripts, EndpointTls tls = {});
  ~ScriptedEndpoint();
  ScriptedEndpoint(const ScriptedEndpoint&) = delete;
  ScriptedEndpoint& operator=(const ScriptedEndpoint&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url(std::string_view path = "/") const;
  [[nodiscard]] std::vector<SeenRequest> requests() const;
  [[nodiscard]] int accepted() const;
  [[nodiscard]] std::string last_sni() const;
  /// Wait until so many requests were read, or connections have ended. False after half a minute.
  [[nodiscard]] bool AwaitRequests(std::size_t count) const;
  [[nodiscard]] bool AwaitEnded(int count) const;

  // Steps.
  static Step Read();  // one whole request
  /// HTTP/2 without TLS: the client's preface and everything up to the end of a request's stream. Its header block is
  /// not decoded: SeenRequest has only a line that says so.
  static Step ReadHttp2();
  static Step Send(std::string bytes);
  static Step SendForever(std::string bytes);
  /// `bytes` one by one, `gap` apart.
  static Step Drip(std::string bytes, std::chrono::milliseconds gap);
  static Step Hold();   // until the other side closes
  static Step Reset();  // closes with a TCP reset
  /// Reads and answers until the other side closes.
  static Step Serve(std::string answer);
  /// The same with what `answer` makes of each request, on the connection's thread; nothing: Hold.
  using Answering = std::function<std::optional<std::string>(const SeenRequest& request)>;
  static Step Serve(Answering answer);
  /// One answer after the other, over all connections; then Hold.
  static Step ServeInTurn(std::vector<std::string> answers);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "HTTP/1.1 <status> x" with `content-length: 0` and more header lines, each ended by CRLF.
[[nodiscard]] std::string Answer(int status, std::string_view more_headers = {});
/// The same with a body.
[[nodiscard]] std::string AnswerWith(int status, std::string_view body, std::string_view more_headers = {});

/// An HTTP/2 frame.
[[nodiscard]] std::string Http2Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                                     std::string_view payload);

/// A TCP port on 127.0.0.1 that nobody listens on.
[[nodiscard]] std::uint16_t RefusingPort();

}  // namespace posthorn::test
