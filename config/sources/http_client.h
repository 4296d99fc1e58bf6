#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/model.h"

namespace posthorn::config {

struct HttpRequest {
  using Headers = std::vector<std::pair<std::string, std::string>>;

  std::string method = "GET";
  std::string url;          // http or https; a user or password in it is sent as basic authentication
  Headers headers;          // go wherever redirects lead
  Headers private_headers;  // go to the host, port and scheme of `url` alone
  std::string body;         // sent when not empty

  std::chrono::milliseconds answer_within{5'000};  // until the answer's headers are there, a redirect's time included
  std::chrono::milliseconds whole_within{15'000};  // until the answer's end
  std::size_t most_bytes = 64u << 20;              // of the body, as it is after decoding
  int most_redirects = 0;                          // never from https to http
  bool compressed = false;                         // asks for gzip and what else libcurl decodes

  /// Called with the pieces of a 2xx answer's body as they come, which are then not kept; false: enough, the request
  /// ends as answered and its connection is closed. Empty: the body is kept whole.
  std::function<bool(std::string_view piece)> on_body;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last one of a name counts
  std::string body;                            // with `on_body`: only what an answer other than 2xx says
};
struct HttpFailure {
  std::string why;         // without the URL and without anything that was sent
  bool timed_out = false;  // answer_within or whole_within is over
  bool answered = false;   // the answer's headers had come
};
struct HttpStopped {};
using HttpOutcome = std::variant<HttpAnswer, HttpFailure, HttpStopped>;

/// Blocking HTTP/1.1 requests of a configuration source: long polls, streams, everything with a deadline, and a stop
/// that ends them at once. Connections are kept for the next request.
///
/// Time     Returns within a few milliseconds of a stop, whatever the server, the network or the name service does.
/// Threads  One: whoever calls Do. The stop token may be stopped from any.
/// Errors   An answer of any status is an answer; a failure is a value whose text may be logged as it is. Proxies of
///          the environment are not used. TLS is verified; the files of `tls` are read anew for each connection.
/// Memory   `most_bytes` at most, whatever the answer claims.
class HttpClient {
 public:
  explicit HttpClient(const Tls& tls = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpOutcome Do(const HttpRequest& request, const std::stop_token& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Scheme, host, port and path of a URL as it may be shown: no user, no password, no query.
std::string ShownUrl(std::string_view url);

}  // namespace posthorn::config
