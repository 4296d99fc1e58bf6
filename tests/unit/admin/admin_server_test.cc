#include "worker/admin/admin_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace posthorn::admin {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr timeval kPatience{30, 0};  // a client gives up, so that a fault fails the test instead of hanging it

/// A connection that sends exactly what it is told.
class Client {
 public:
  explicit Client(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    sockaddr general{};
    static_assert(sizeof general == sizeof to);
    std::memcpy(&general, &to, sizeof to);
    EXPECT_EQ(connect(fd_, &general, sizeof general), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// What comes until the server closes.
  std::string ReadToEnd() {
    while (Receive()) {
    }
    return std::exchange(received_, {});
  }
  /// One answer with a Content-Length on a connection that stays open.
  std::string ReadAnswer() {
    for (;;) {
      const auto head = received_.find("\r\n\r\n");
      if (head != std::string::npos) {
        const auto length = received_.find("Content-Length: ");
        const auto size = head + 4 + std::stoul(received_.substr(length + 16));
        if (received_.size() >= size) {
          auto answer = received_.substr(0, size);
          received_.erase(0, size);
          return answer;
        }
      }
      if (!Receive()) return std::exchange(received_, {});
    }
  }

 private:
  bool Receive() {
    char buffer[4096];
    const auto bytes = recv(fd_, buffer, sizeof buffer, 0);
    if (bytes > 0) received_.append(buffer, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }
  int fd_;
  std::string received_;
};

struct AdminServerTest : ::testing::Test {
  std::unique_ptr<AdminServer> server;

  void Start(AdminServer::Options options = {}) {
    server = std::make_unique<AdminServer>("127.0.0.1:0", options);
    server->Handle("/hello", [](const Request& request) {
      const auto* name = request.Query("name");
      return Response{.body = "hello " + (name == nullptr ? std::string("you") : *name) + "\n"};
    });
    server->Handle("/down", [](const Request&) { return Response{503, "application/json", "{}"}; });
    server->Handle("/broken", [](const Request&) -> Response { throw std::runtime_error("planned"); });
    server->Handle("/large", [](const Request&) { return Response{.body = std::string(8 << 20, 'x')}; });
    std::string why;
    ASSERT_TRUE(server->Start(&why)) << why;
  }
  std::string Ask(const std::string& bytes) {
    Client client(server->listening());
    client.Send(bytes);
    return client.ReadToEnd();
  }
  std::string Get(const std::string& target) {
    return Ask("GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  }
};

TEST_F(AdminServerTest, AnswersAPage) {
  Start();
  EXPECT_THAT(server->listening(), MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  const auto answer = Get("/hello");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nhello you\n"));
  EXPECT_THAT(Get("/down"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("application/json"), EndsWith("{}")));
}

TEST_F(AdminServerTest, DecodesTheQuery) {
  Start();
  EXPECT_THAT(Get("/hello?x=1&name=a%20b%2Fc"), EndsWith("hello a b/c\n"));
}

TEST_F(AdminServerTest, UnknownPathsGetTheListOfThoseThereAre) {
  Start();
  EXPECT_THAT(Get("/hell"), AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("\n/down\n/hello\n")));
}

TEST_F(AdminServerTest, OnlyGetAndHead) {
  Start();
  for (const std::string method : {"DELETE", "OPTIONS", "BREW"}) {
    EXPECT_THAT(Ask(method + " /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  }
}

TEST_F(AdminServerTest, ABodyIsRefused) {
  Start();
  EXPECT_THAT(Ask("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(AdminServerTest, HeadIsGetWithoutTheBody) {
  Start();
  EXPECT_THAT(Ask("HEAD /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 10\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(AdminServerTest, KeepsTheConnection) {
  Start();
  Client client(server->listening());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /hello?name=" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_THAT(client.ReadAnswer(), EndsWith("hello " + std::to_string(i) + "\n"));
  }
  client.Send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /down HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), AllOf(HasSubstr("hello you"), EndsWith("{}")));
}

TEST_F(AdminServerTest, Http10ClosesByItself) {
  Start();
  EXPECT_THAT(Ask("GET /hello HTTP/1.0\r\n\r\n"), EndsWith("hello you\n"));
}

TEST_F(AdminServerTest, TooLargeARequestIsRefused) {
  Start();
  EXPECT_THAT(Ask("GET /hello HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(AdminServerTest, NonsenseIsRefused) {
  Start();
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(50, '\n')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("http://elsewhere/hello"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/%zz"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(AdminServerTest, APageThatThrowsIsAnErrorOfThatPageOnly) {
  Start();
  EXPECT_THAT(Get("/broken"), AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("planned"))));
  EXPECT_THAT(Get("/hello"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AdminServerTest, AClientThatSendsHalfARequestHoldsNobodyUp) {
  Start();
  Client slow(server->listening());
  slow.Send("GET /hel");
  Client deaf(server->listening());
  deaf.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(Get("/hello"), StartsWith("HTTP/1.1 200 "));
  slow.Send("lo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(slow.ReadToEnd(), EndsWith("hello you\n"));
}

TEST_F(AdminServerTest, ARequestThatDoesNotEndIsGivenUp) {
  AdminServer::Options options;
  options.request_timeout = std::chrono::milliseconds(50);
  Start(options);
  Client slow(server->listening());
  slow.Send("GET /hello HTTP/1.1\r\nHost");
  EXPECT_THAT(slow.ReadToEnd(), IsEmpty());
}

TEST_F(AdminServerTest, ASilentConnectionIsGivenUp) {
  AdminServer::Options options;
  options.idle_timeout = std::chrono::milliseconds(50);
  Start(options);
  Client silent(server->listening());
  EXPECT_THAT(silent.ReadToEnd(), IsEmpty());
}

TEST_F(AdminServerTest, OneConnectionTooManyClosesTheOneSilentForLongest) {
  AdminServer::Options options;
  options.max_connections = 2;
  Start(options);
  const std::string get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
  Client first(server->listening());
  first.Send(get);
  EXPECT_THAT(first.ReadAnswer(), EndsWith("hello you\n"));
  Client second(server->listening());
  second.Send(get);
  EXPECT_THAT(second.ReadAnswer(), EndsWith("hello you\n"));
  first.Send(get);
  EXPECT_THAT(first.ReadAnswer(), EndsWith("hello you\n"));
  Client third(server->listening());
  third.Send(get);
  EXPECT_THAT(third.ReadAnswer(), EndsWith("hello you\n"));
  EXPECT_THAT(second.ReadToEnd(), IsEmpty());
  first.Send(get);
  EXPECT_THAT(first.ReadAnswer(), EndsWith("hello you\n"));
}

TEST_F(AdminServerTest, StopClosesEverythingAndMayBeRepeated) {
  Start();
  Client idle(server->listening());
  Client half(server->listening());
  half.Send("GET /");
  EXPECT_THAT(Get("/hello"), StartsWith("HTTP/1.1 200 "));
  server->Stop();
  server->Stop();
  EXPECT_THAT(idle.ReadToEnd(), IsEmpty());
  EXPECT_THAT(half.ReadToEnd(), IsEmpty());
}

TEST_F(AdminServerTest, TicksFromTheStartAndOnTheThreadOfThePages) {
  AdminServer::Options options;
  options.tick = std::chrono::milliseconds(1);
  AdminServer ticking("127.0.0.1:0", options);
  std::promise<void> third;
  int ticks = 0;
  std::thread::id tick_thread, page_thread;
  ticking.OnTick([&] {
    tick_thread = std::this_thread::get_id();
    if (++ticks == 3) third.set_value();
    if (ticks == 1) throw std::runtime_error("planned");
  });
  ticking.Handle("/", [&](const Request&) {
    page_thread = std::this_thread::get_id();
    return Response{};
  });
  std::string why;
  ASSERT_TRUE(ticking.Start(&why)) << why;
  ASSERT_EQ(third.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  Client client(ticking.listening());
  client.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1."));
  ticking.Stop();
  EXPECT_EQ(tick_thread, page_thread);
}

TEST(AdminServerStart, SaysWhyItCannotListen) {
  AdminServer first("127.0.0.1:0");
  std::string why;
  ASSERT_TRUE(first.Start(&why)) << why;
  AdminServer second(first.listening());
  EXPECT_FALSE(second.Start(&why));
  EXPECT_EQ(why, "admin: cannot listen on " + first.listening() + ": Address already in use");
  AdminServer nowhere("8080");
  EXPECT_FALSE(nowhere.Start(&why));
  EXPECT_EQ(why, "admin: 8080 is not host:port");
}

TEST(AdminServerStart, NeverStartedIsJustDestroyed) {
  AdminServer server("127.0.0.1:0");
  server.Handle("/", [](const Request&) { return Response{}; });
  server.Stop();
}

}  // namespace
}  // namespace posthorn::admin
