#include "worker/cli/sink_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "worker/cli/sink_log.h"

namespace posthorn::cli {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;
using boost::system::error_code;
using ratelimit::WallTime;
using Request = http::request<http::string_body>;

namespace {

constexpr std::chrono::milliseconds kLogInterval{100};
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr std::uint64_t kLargestBody = 256u << 20;
constexpr std::size_t kReadSize = 16u << 10;

WallTime NowWall() {
  return WallTime(
      std::chrono::duration_cast<ratelimit::Nanoseconds>(std::chrono::system_clock::now().time_since_epoch()));
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string ResponseText(int status, std::string_view headers, std::string_view body, bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out.append(View(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)))));
  out.append("\r\n");
  if (status != 204 && status != 304) out.append("content-length: ").append(std::to_string(body.size())).append("\r\n");
  if (!keep_alive) out.append("connection: close\r\n");
  out.append(headers).append("\r\n").append(body);
  return out;
}

void AppendTime(std::string& out, WallTime at) {
  const std::int64_t ms = at.time_since_epoch().count() / 1'000'000;
  const std::string fraction = std::to_string(1000 + ms % 1000);
  out.append(std::to_string(ms / 1000)).append(".").append(fraction, 1, 3);
}

/// Of the headers that have no key of their own: those somebody who looks at deliveries wants to see.
bool IsWorthLogging(std::string_view name) {
  const auto starts = [&](std::string_view prefix) {
    return name.size() >= prefix.size() &&
           std::equal(prefix.begin(), prefix.end(), name.begin(),
                      [](char lower, char c) { return lower == (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  };
  return starts("content-type") || starts("webhook-timestamp") || starts("webhook-signature") ||
         starts("posthorn-null") || starts("trace") || starts("x-") || starts("ce-");
}

}  // namespace

namespace {

/// Goes as a whole when the server stops, and with it every connection.
struct Network {
  explicit Network(unsigned threads) : context(static_cast<int>(threads)) {}
  asio::io_context context;
  tcp::acceptor acceptor{context};
  asio::steady_timer accept_timer{context};
  asio::steady_timer log_timer{context};
};

}  // namespace

namespace {

struct Reply {
  std::string text;
  std::chrono::milliseconds wait{0};
  bool reset = false;  // after the text, which promises more
};

}  // namespace

struct SinkServer::Impl {
  explicit Impl(SinkOptions o) : options(std::move(o)), behaviour(options.behaviour) {}

  bool Listen(std::string* why);
  void Accept();
  void FlushLogLater();
  std::string Counts() const;
  /// Counts and logs the request and decides on the answer.
  Reply Take(const Request& request, WallTime at);
  std::string Control(const Request& request);
  void LogRequest(const Request& request, WallTime at, int status, const Reply& reply);

  const SinkOptions options;
  std::unique_ptr<Network> network;
  std::vector<std::thread> threads;
  std::uint16_t port = 0;
  std::string address;

  mutable std::mutex mutex;  // for what follows
  SinkBehaviour behaviour;
  ArrivalCounts counts;
  SinkLog log;
  std::mt19937_64 random{std::random_device{}()};
};

namespace {

/// One connection: one request after the other, each read whole and answered before the next is looked at.
template <typename Server>
class Session : public std::enable_shared_from_this<Session<Server>> {
 public:
  Session(Server& server, tcp::socket socket)
      : server_(server), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void Start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    NextRequest();
  }

 private:
  void NextRequest() {
    parser_.emplace();
    parser_->body_limit(kLargestBody);
    parser_->eager(true);
    continue_sent_ = false;
    if (buffer_.size() != 0) {
      first_byte_at_ = last_read_at_;  // it came with the end of the one before
      Parse();
    } else {
      first_byte_at_.reset();
      Read();
    }
  }

  void Read() {
    socket_.async_read_some(buffer_.prepare(kReadSize),
                            [self = this->shared_from_this()](const error_code& error, std::size_t bytes) {
                              if (error) return;
                              self->last_read_at_ = NowWall();
                              if (!self->first_byte_at_) self->first_byte_at_ = self->last_read_at_;
                              self->buffer_.commit(bytes);
                              self->Parse();
                            });
  }

  void Parse() {
    error_code error;
    while (!parser_->is_done() && buffer_.size() != 0) {
      const std::size_t used = parser_->put(buffer_.data(), error);
      buffer_.consume(used);
      if (error == http::error::need_more) {
        error = {};
        break;
      }
      if (error) {
        Write(ResponseText(400, "", "", false), false);
        return;
      }
    }
    if (parser_->is_done()) {
      Answer();
    } else if (parser_->is_header_done() && !continue_sent_ && ExpectsContinue()) {
      continue_sent_ = true;
      output_ = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(socket_, asio::buffer(output_),
                        [self = this->shared_from_this()](const error_code& write_error, std::size_t) {
                          if (!write_error) self->Read();
                        });
    } else {
      Read();
    }
  }

  bool ExpectsContinue() { return boost::beast::iequals(parser_->get()[http::field::expect], "100-continue"); }

  void Answer() {
    const Request& request = parser_->get();
    const bool keep_alive = request.keep_alive();
    Reply reply;
    if (View(request.target()).starts_with("/_sink/")) {
      reply.text = server_.Control(request);
    } else {
      reply = server_.Take(request, *first_byte_at_);
    }
    const auto wait = reply.wait;
    if (wait.count() == 0) {
      Write(std::move(reply), keep_alive);
      return;
    }
    timer_.expires_after(wait);
    timer_.async_wait(
        [self = this->shared_from_this(), reply = std::move(reply), keep_alive](const error_code& error) mutable {
          if (!error) self->Write(std::move(reply), keep_alive);
        });
  }

  void Write(Reply reply, bool keep_alive) {
    if (!reply.reset) {
      Write(std::move(reply.text), keep_alive);
      return;
    }
    output_ = std::move(reply.text);
    asio::async_write(socket_, asio::buffer(output_),
                      [self = this->shared_from_this()](const error_code& error, std::size_t) {
                        error_code ignored;
                        if (!error) self->socket_.set_option(tcp::socket::linger(true, 0), ignored);
                        self->socket_.close(ignored);
                      });
  }

  void Write(std::string answer, bool keep_alive) {
    output_ = std::move(answer);
    asio::async_write(socket_, asio::buffer(output_),
                      [self = this->shared_from_this(), keep_alive](const error_code& error, std::size_t) {
                        if (error) return;
                        if (keep_alive) {
                          self->NextRequest();
                        } else {
                          error_code ignored;
                          self->socket_.shutdown(tcp::socket::shutdown_both, ignored);
                        }
                      });
  }

  Server& server_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<WallTime> first_byte_at_;
  WallTime last_read_at_{};
  bool continue_sent_ = false;
  std::string output_;
};

}  // namespace

Reply SinkServer::Impl::Take(const Request& request, WallTime at) {
  Reply reply;
  int status;
  std::optional<std::int64_t> retry_after;
  {
    const std::lock_guard lock(mutex);
    const SinkBehaviour& b = behaviour;
    const bool fails = (b.fail > 0 && std::uniform_real_distribution<double>(0, 1)(random) < b.fail) ||
                       (b.poison > 0 && IsPoisoned(View(request["webhook-id"]), b.poison));
    status = fails ? b.fail_status : b.status;
    retry_after = b.retry_after;
    reply.wait = b.latency_min;
    if (b.latency_max > b.latency_min) {
      reply.wait = std::chrono::milliseconds(
          std::uniform_int_distribution<std::int64_t>(b.latency_min.count(), b.latency_max.count())(random));
    }
    // A status without a body has nothing that could break off.
    reply.reset =
        b.reset > 0 && status != 204 && status != 304 && std::uniform_real_distribution<double>(0, 1)(random) < b.reset;
    counts.Add(at, status / 100 != 2);
    if (log.is_open()) LogRequest(request, at, status, reply);
  }
  std::string headers;
  if (retry_after && status / 100 != 2) headers = "retry-after: " + std::to_string(*retry_after) + "\r\n";
  reply.text = ResponseText(status, headers, reply.reset ? "cut off" : "", request.keep_alive());
  if (reply.reset) reply.text.resize(reply.text.size() - 4);
  return reply;
}

void SinkServer::Impl::LogRequest(const Request& request, WallTime at, int status, const Reply& reply) {
  std::string& out = log.line();
  const auto text = [&](std::string_view key, std::string_view value) {
    out.append(",\"").append(key).append("\":");
    AppendJsonString(out, value);
  };
  out.append("{\"time\":");
  AppendTime(out, at);
  out.append(",\"time_ns\":").append(std::to_string(at.time_since_epoch().count()));
  text("method", View(request.method_string()));
  text("path", View(request.target()));
  text("webhook_id", View(request["webhook-id"]));
  const std::string_view attempt = View(request["posthorn-attempt"]);
  int number = 0;
  std::from_chars(attempt.data(), attempt.data() + attempt.size(), number);
  out.append(",\"attempt\":").append(std::to_string(number));
  text("subscription", View(request["posthorn-subscription"]));
  out.append(",\"status\":").append(std::to_string(status));
  out.append(",\"bytes\":").append(std::to_string(request.body().size()));
  if (reply.wait.count() != 0) out.append(",\"wait_ms\":").append(std::to_string(reply.wait.count()));
  if (reply.reset) out.append(",\"reset\":true");
  out.append(",\"headers\":{");
  bool first = true;
  for (const auto& field : request) {
    if (!IsWorthLogging(View(field.name_string()))) continue;
    if (!first) out.push_back(',');
    first = false;
    AppendJsonString(out, View(field.name_string()));
    out.push_back(':');
    AppendJsonString(out, View(field.value()));
  }
  out.append("}}");
  log.EndLine();
}

std::string SinkServer::Impl::Control(const Request& request) {
  constexpr std::string_view kJson = "content-type: application/json\r\n";
  const bool keep_alive = request.keep_alive();
  const std::string_view path = View(request.target());
  const std::lock_guard lock(mutex);
  if (path == "/_sink/counts" && request.method() == http::verb::get) {
    return ResponseText(200, kJson, Counts(), keep_alive);
  }
  if (path == "/_sink/set" && request.method() == http::verb::post) {
    if (const auto fault = ChangeByJson(request.body(), behaviour)) {
      return ResponseText(400, "content-type: text/plain\r\n", *fault + "\n", keep_alive);
    }
    return ResponseText(200, kJson, ToJson(behaviour), keep_alive);
  }
  return ResponseText(404, "", "", keep_alive);
}

std::string SinkServer::Impl::Counts() const {
  const ArrivalCounts::Totals& t = counts.totals();
  json::object seconds;
  for (const auto& [label, second] : t.seconds) {
    seconds[std::to_string(label)] = {{"requests", second.requests}, {"failed", second.failed}};
  }
  json::object object{{"requests", t.requests},         {"failed", t.failed},
                      {"largest_10ms", t.largest_10ms}, {"largest_100ms", t.largest_100ms},
                      {"largest_1s", t.largest_1s},     {"seconds", std::move(seconds)}};
  return json::serialize(object);
}

bool SinkServer::Impl::Listen(std::string* why) {
  const std::size_t colon = options.listen.rfind(':');
  std::string host = options.listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  error_code error;
  tcp::resolver resolver(network->context);
  const auto found = colon == std::string::npos
                         ? tcp::resolver::results_type{}
                         : resolver.resolve(host, options.listen.substr(colon + 1), tcp::resolver::passive, error);
  if (found.empty()) {
    *why = "cannot listen on " + options.listen + ": not an address with a port";
    return false;
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  network->acceptor.open(endpoint.protocol(), error);
  if (!error) network->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) network->acceptor.bind(endpoint, error);
  if (!error) network->acceptor.listen(4096, error);
  if (error) {
    *why = "cannot listen on " + options.listen + ": " + error.message();
    return false;
  }
  port = network->acceptor.local_endpoint().port();
  address = options.listen.substr(0, colon + 1) + std::to_string(port);
  return true;
}

void SinkServer::Impl::Accept() {
  network->acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Session<Impl>>(*this, std::move(socket))->Start();
    if (error == asio::error::no_descriptors) {
      // Descriptors come free as connections close; asking again at once would turn in a circle.
      network->accept_timer.expires_after(kAcceptPause);
      network->accept_timer.async_wait([this](const error_code& timer_error) {
        if (!timer_error) Accept();
      });
      return;
    }
    Accept();
  });
}

void SinkServer::Impl::FlushLogLater() {
  network->log_timer.expires_after(kLogInterval);
  network->log_timer.async_wait([this](const error_code& error) {
    if (error) return;
    {
      const std::lock_guard lock(mutex);
      log.Flush();
    }
    FlushLogLater();
  });
}

SinkServer::SinkServer(SinkOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

SinkServer::~SinkServer() { Stop(); }

bool SinkServer::Start(std::string* why) {
  if (!impl_->options.log.empty() && !impl_->log.is_open() && !impl_->log.Open(impl_->options.log, why)) return false;
  const unsigned threads = std::max(1u, impl_->options.threads);
  impl_->network = std::make_unique<Network>(threads);
  if (!impl_->Listen(why)) return false;
  impl_->Accept();
  if (impl_->log.is_open()) impl_->FlushLogLater();
  for (unsigned i = 0; i < threads; ++i) {
    impl_->threads.emplace_back([this] { impl_->network->context.run(); });
  }
  return true;
}

void SinkServer::Stop() {
  if (!impl_->network) return;
  impl_->network->context.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  impl_->network.reset();
  const std::lock_guard lock(impl_->mutex);
  impl_->log.Flush();
}

std::uint16_t SinkServer::port() const { return impl_->port; }

std::string SinkServer::address() const { return impl_->address; }

void SinkServer::Set(const SinkBehaviour& behaviour) {
  const std::lock_guard lock(impl_->mutex);
  impl_->behaviour = behaviour;
}

SinkBehaviour SinkServer::behaviour() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->behaviour;
}

ArrivalCounts::Totals SinkServer::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts.totals();
}

ArrivalCounts::Second SinkServer::CountsAt(ratelimit::Label second) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts.At(second);
}

}  // namespace posthorn::cli
