#include "worker/admin/admin_server.h"

#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "worker/runtime/log.h"

namespace posthorn::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kLingerBytes = 64 * 1024;
constexpr auto kLingerTime = std::chrono::seconds(1);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

std::optional<Request> ParseTarget(std::string_view target) {
  const auto parsed = boost::urls::parse_origin_form(target);
  if (!parsed) return std::nullopt;
  Request request;
  request.path = parsed->path();
  for (const auto& param : parsed->params()) request.query.emplace_back(param.key, param.value);
  return request;
}

/// What is told to a client whose request could not be read; nothing when there is nobody to tell.
std::optional<Response> AnswerTo(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Response{.status = 431, .body = "the request is too large\n"};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    return Response{.status = 400, .body = "this is not an HTTP/1.1 request\n"};
  }
  return std::nullopt;
}

}  // namespace

const std::string* Request::Query(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct AdminServer::Impl {
  class Session;
  using Sessions = std::list<std::shared_ptr<Session>>;  // the one heard of least recently first

  Impl(std::string where, Options limits) : address(std::move(where)), options(limits) {}

  [[nodiscard]] bool Listen(std::string* why);
  void Accept();
  void Tick();
  [[nodiscard]] Response Answer(const http::request<http::empty_body>& message) const;

  const std::string address;
  const Options options;
  std::map<std::string, Handler> handlers;
  std::function<void()> tick;
  std::string listening;

  // Destroyed from the bottom up: what is still waited for goes with the context.
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer tick_timer{context};
  asio::steady_timer accept_pause{context};
  Sessions sessions;
  std::thread thread;
};

/// One connection. Kept alive by the operation it waits for.
class AdminServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, tcp::socket socket)
      : server_(server), stream_(std::move(socket)), buffer_(2 * server.options.max_request_bytes) {}

  void Start(Sessions::iterator self) {
    self_ = self;
    AwaitRequest();
  }

  void Close() {
    error_code ignored;
    stream_.socket().close(ignored);
  }

  /// Ends the connection whatever it waits for; its operations come back with an error.
  void End() {
    Close();
    if (ended_) return;
    ended_ = true;
    server_.sessions.erase(self_);
  }

 private:
  void AwaitRequest() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_.options.max_request_bytes));
    if (buffer_.size() > 0) return ReadRequest();
    stream_.expires_after(server_.options.idle_timeout);
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [me = shared_from_this()](const error_code& error, std::size_t bytes) {
                              if (error) return me->End();
                              me->buffer_.commit(bytes);
                              me->ReadRequest();
                            });
  }

  void ReadRequest() {
    if (ended_) return;
    server_.sessions.splice(server_.sessions.end(), server_.sessions, self_);
    stream_.expires_after(server_.options.request_timeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [me = shared_from_this()](const error_code& error, std::size_t) {
                              if (!error) return me->Reply();
                              if (auto answer = AnswerTo(error)) return me->Write(std::move(*answer), 11, false, false);
                              me->End();
                            });
  }

  void Reply() {
    const auto& message = parser_->get();
    const bool head = message.method() == http::verb::head;
    if (!parser_->is_done()) {
      return Write({.status = 413, .body = "a body is not expected\n"}, message.version(), false, head);
    }
    Write(server_.Answer(message), message.version(), message.keep_alive(), head);
  }

  void Write(Response&& answer, unsigned version, bool keep_alive, bool head) {
    response_ = {};
    response_.result(static_cast<unsigned>(answer.status));
    response_.version(version);
    response_.keep_alive(keep_alive);
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    if (answer.status == 405) response_.set(http::field::allow, "GET, HEAD");
    response_.content_length(answer.body.size());
    if (!head) response_.body() = std::move(answer.body);
    stream_.expires_after(server_.options.write_timeout);
    http::async_write(stream_, response_, [me = shared_from_this(), keep_alive](const error_code& error, std::size_t) {
      if (error) return me->End();
      if (keep_alive) return me->AwaitRequest();
      error_code ignored;
      me->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      me->stream_.expires_after(kLingerTime);
      me->Linger(kLingerBytes);
    });
  }

  /// Takes what the client still sends: closing over unread bytes would reset the connection under our answer.
  void Linger(std::size_t left) {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [me = shared_from_this(), left](const error_code& error, std::size_t bytes) {
                              if (error || bytes >= left) return me->End();
                              me->Linger(left - bytes);
                            });
  }

  static constexpr std::size_t kFirstRead = 2048;
  Impl& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  Sessions::iterator self_;
  bool ended_ = false;
};

Response AdminServer::Impl::Answer(const http::request<http::empty_body>& message) const {
  if (message.method() != http::verb::get && message.method() != http::verb::head) {
    return {.status = 405, .body = "only GET and HEAD\n"};
  }
  const auto request = ParseTarget({message.target().data(), message.target().size()});
  if (!request) return {.status = 400, .body = "this is not a path\n"};
  const auto handler = handlers.find(request->path);
  if (handler == handlers.end()) {
    Response response{.status = 404, .body = "nothing here; there is:\n"};
    for (const auto& [path, unused] : handlers) response.body += path + "\n";
    return response;
  }
  try {
    return handler->second(*request);
  } catch (const std::exception& error) {
    runtime::Log(runtime::LogLevel::kError, "admin page failed", {{"path", request->path}, {"why", error.what()}});
  }
  return {.status = 500, .body = "this page failed, the log says why\n"};
}

bool AdminServer::Impl::Listen(std::string* why) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) {
    *why = "admin: " + address + " is not host:port";
    return false;
  }
  auto host = address.substr(0, colon);
  const auto shown_host = host;
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  error_code error;
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(host, address.substr(colon + 1), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  for (const auto& entry : found) {
    const auto endpoint = entry.endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) break;
    error_code ignored;
    acceptor.close(ignored);
  }
  if (!error) {
    listening = shown_host + ":" + std::to_string(acceptor.local_endpoint(error).port());
  }
  if (error) *why = "admin: cannot listen on " + address + ": " + error.message();
  return !error;
}

void AdminServer::Impl::Accept() {
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      // Mostly: no descriptors left. They come back when others close theirs.
      accept_pause.expires_after(kAcceptPause);
      accept_pause.async_wait([this](const error_code& stopped) {
        if (!stopped) Accept();
      });
      return;
    }
    if (sessions.size() >= options.max_connections) sessions.front()->End();
    sessions.push_back(std::make_shared<Session>(*this, std::move(socket)));
    sessions.back()->Start(std::prev(sessions.end()));
    Accept();
  });
}

void AdminServer::Impl::Tick() {
  try {
    tick();
  } catch (const std::exception& error) {
    runtime::Log(runtime::LogLevel::kError, "admin tick failed", {{"why", error.what()}});
  }
  tick_timer.expires_after(options.tick);
  tick_timer.async_wait([this](const error_code& error) {
    if (!error) Tick();
  });
}

AdminServer::AdminServer(std::string address, Options options)
    : impl_(std::make_unique<Impl>(std::move(address), options)) {}

AdminServer::~AdminServer() { Stop(); }

void AdminServer::Handle(std::string path, Handler handler) { impl_->handlers[std::move(path)] = std::move(handler); }

void AdminServer::OnTick(std::function<void()> tick) { impl_->tick = std::move(tick); }

bool AdminServer::Start(std::string* why) {
  if (!impl_->Listen(why)) return false;
  runtime::Log(runtime::LogLevel::kInfo, "admin listening", {{"address", impl_->listening}});
  impl_->Accept();
  impl_->thread = std::thread([impl = impl_.get()] {
    pthread_setname_np(pthread_self(), "admin");
    if (impl->tick) impl->Tick();
    for (;;) {
      try {
        impl->context.run();
        return;
      } catch (const std::exception& error) {
        runtime::Log(runtime::LogLevel::kError, "admin connection failed", {{"why", error.what()}});
      }
    }
  });
  return true;
}

void AdminServer::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->context.stop();
  impl_->thread.join();
  error_code ignored;
  impl_->acceptor.close(ignored);
  for (const auto& session : impl_->sessions) session->Close();
}

const std::string& AdminServer::listening() const { return impl_->listening; }

}  // namespace posthorn::admin
