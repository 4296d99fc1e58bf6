#include "worker/cli/admin_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

namespace posthorn::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace beast_http = boost::beast::http;

}  // namespace

std::optional<std::string> GetFromAdmin(const std::string& address, const std::string& path) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  asio::io_context context;
  boost::system::error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto endpoints = resolver.resolve(address.substr(0, colon), address.substr(colon + 1), error);
  if (error) return std::nullopt;

  // The time limit of a tcp_stream holds for asynchronous calls only.
  beast::tcp_stream stream(context);
  stream.expires_after(std::chrono::seconds(2));
  beast_http::request<beast_http::empty_body> request(beast_http::verb::get, path, 11);
  request.set(beast_http::field::host, address);
  request.set(beast_http::field::connection, "close");
  beast::flat_buffer buffer;
  beast_http::response<beast_http::string_body> response;
  bool complete = false;
  stream.async_connect(endpoints, [&](boost::system::error_code failed, const asio::ip::tcp::endpoint&) {
    if (failed) return;
    beast_http::async_write(stream, request, [&](boost::system::error_code write_failed, std::size_t) {
      if (write_failed) return;
      beast_http::async_read(stream, buffer, response, [&](boost::system::error_code read_failed, std::size_t) {
        complete = !read_failed;
        stream.close();
      });
    });
  });
  context.run();
  if (!complete || response.result() != beast_http::status::ok) return std::nullopt;
  return std::move(response.body());
}

}  // namespace posthorn::cli
