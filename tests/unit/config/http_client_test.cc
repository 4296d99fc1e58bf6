#include "config/sources/http_client.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "config/sources/libcurl_basics.h"
#include "tests/support/scripted_endpoint.h"
#include "tests/support/test_certificates.h"

namespace posthorn::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::Answer;
using test::AnswerWith;
using test::ScriptedEndpoint;
using test::SeenRequest;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Endpoint = ScriptedEndpoint;

// Only what a test is about may end a request.
HttpRequest Patient(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.answer_within = request.whole_within = hours(1);
  return request;
}

Tls Trust(const std::string& ca, const std::string& server_name = {}) { return {ca, {}, {}, server_name}; }

HttpOutcome Do(const HttpRequest& request, const Tls& tls = {}) { return HttpClient(tls).Do(request, {}); }

HttpAnswer Answered(const HttpRequest& request, const Tls& tls = {}) {
  HttpOutcome outcome = Do(request, tls);
  const auto* failure = std::get_if<HttpFailure>(&outcome);
  EXPECT_EQ(failure, nullptr) << failure->why;
  return failure == nullptr ? std::get<HttpAnswer>(std::move(outcome)) : HttpAnswer();
}

HttpFailure Failure(const HttpRequest& request, const Tls& tls = {}) {
  HttpOutcome outcome = Do(request, tls);
  const auto* failure = std::get_if<HttpFailure>(&outcome);
  EXPECT_NE(failure, nullptr);
  return failure != nullptr ? *failure : HttpFailure();
}

std::string Bytes(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

TEST(HttpClientTest, SendsWhatItIsTold) {
  Endpoint endpoint({{Endpoint::Serve(AnswerWith(201, "done", "ETag: \"x\"\r\nRetry-After: 3\r\n"))}});
  HttpRequest request = Patient(endpoint.url("/a/**?b=c"));
  request.method = "POST";
  request.headers = {{"content-type", "application/json"}, {"empty", ""}};
  request.private_headers = {{"authorization", "Bearer hunter2"}};
  request.body = "{}";
  const HttpAnswer answer = Answered(request);
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.headers.at("etag"), "\"x\"");
  EXPECT_EQ(answer.headers.at("retry-after"), "3");
  const SeenRequest seen = endpoint.requests().at(0);
  EXPECT_EQ(seen.line, "POST /a/**?b=c HTTP/1.1");
  EXPECT_EQ(seen.body, "{}");
  EXPECT_EQ(seen.header("content-type"), "application/json");
  EXPECT_EQ(seen.header("authorization"), "Bearer hunter2");
  EXPECT_EQ(seen.header("empty"), "");
  EXPECT_THAT(seen.header("user-agent"), HasSubstr("posthorn/"));
}

TEST(HttpClientTest, AnyStatusIsAnAnswerAndTheConnectionIsKept) {
  Endpoint endpoint({{Endpoint::Serve([](const SeenRequest& request) {
    return request.line.find("/204") != std::string::npos ? Answer(204) : AnswerWith(503, "later");
  })}});
  HttpClient client;
  const HttpOutcome first = client.Do(Patient(endpoint.url("/204")), {});
  const HttpOutcome second = client.Do(Patient(endpoint.url("/")), {});
  EXPECT_EQ(std::get<HttpAnswer>(first).status, 204);
  EXPECT_EQ(std::get<HttpAnswer>(second).status, 503);
  EXPECT_EQ(std::get<HttpAnswer>(second).body, "later");
  EXPECT_EQ(endpoint.accepted(), 1);
}

TEST(HttpClientTest, AConnectionThatTheServerClosedMeanwhileIsMadeAnew) {
  Endpoint endpoint({{Endpoint::Read(), Endpoint::Send(AnswerWith(200, "1"))},
                     {Endpoint::Read(), Endpoint::Send(AnswerWith(200, "2"))}});
  HttpClient client;
  const HttpOutcome first = client.Do(Patient(endpoint.url()), {});
  ASSERT_TRUE(endpoint.AwaitEnded(1));
  const HttpOutcome second = client.Do(Patient(endpoint.url()), {});
  EXPECT_EQ(std::get<HttpAnswer>(first).body, "1");
  EXPECT_EQ(std::get<HttpAnswer>(second).body, "2");
}

TEST(HttpClientTest, AStopEndsWhateverItWaitsFor) {
  const std::vector<Endpoint::Script> hanging{
      {Endpoint::Read(), Endpoint::Hold()},
      {Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nabc"), Endpoint::Hold()},
      {Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\ncontent-length: 9999\r\n\r\n"),
       Endpoint::Drip(std::string(5000, 'x'), milliseconds(1)), Endpoint::Hold()}};
  for (const auto& script : hanging) {
    Endpoint endpoint({script});
    HttpClient client;
    std::stop_source stop;
    auto outcome = std::async(std::launch::async, [&] { return client.Do(Patient(endpoint.url()), stop.get_token()); });
    ASSERT_TRUE(endpoint.AwaitRequests(1));
    stop.request_stop();
    EXPECT_TRUE(std::holds_alternative<HttpStopped>(outcome.get()));
  }
}

/// The look-up of `silent.test`, which comes back only when it is let go: see getaddrinfo below.
struct SilentLookUp {
  std::promise<void> asked;
  std::promise<void> let_go;
};
std::mutex silent_mutex;
std::shared_ptr<SilentLookUp> running_look_up;  // the running test's

TEST(HttpClientTest, AStopEndsTheLookUpOfAName) {
  const auto look_up = std::make_shared<SilentLookUp>();
  {
    const std::lock_guard lock(silent_mutex);
    running_look_up = look_up;
  }
  std::stop_source stop;
  auto outcome = std::async(std::launch::async, [&] {
    HttpClient client;
    return client.Do(Patient("http://silent.test/"), stop.get_token());
  });
  look_up->asked.get_future().wait();
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<HttpStopped>(outcome.get()));
  look_up->let_go.set_value();
}

/// A port where nobody accepts, and the one place in the queue is taken: whoever connects gets no answer.
class FullPort {
 public:
  FullPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    EXPECT_EQ(connect(first_, any, size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~FullPort() {
    close(first_);
    close(listener_);
  }
  FullPort(const FullPort&) = delete;
  FullPort& operator=(const FullPort&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// Until somebody has asked for a connection.
  void AwaitConnect() const {
    std::array<char, 32> asking{};
    std::snprintf(asking.data(), asking.size(), "0100007F:%04X 02", static_cast<unsigned>(port_));  // SYN_SENT
    for (;;) {
      std::ifstream table("/proc/net/tcp");
      for (std::string line; std::getline(table, line);) {
        if (line.find(asking.data()) != std::string::npos) return;
      }
    }
  }

 private:
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int first_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::uint16_t port_ = 0;
};

TEST(HttpClientTest, AStopEndsAConnectThatIsNotAnswered) {
  const FullPort port;
  HttpClient client;
  std::stop_source stop;
  auto outcome = std::async(std::launch::async, [&] { return client.Do(Patient(port.url()), stop.get_token()); });
  port.AwaitConnect();
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<HttpStopped>(outcome.get()));
}

TEST(HttpClientTest, AStopEndsAHandshakeThatIsNotAnswered) {
  Endpoint endpoint({{Endpoint::Hold()}});  // speaks no TLS, nor anything else
  HttpClient client;
  std::stop_source stop;
  auto outcome = std::async(std::launch::async, [&] {
    return client.Do(Patient("https://127.0.0.1:" + std::to_string(endpoint.port())), stop.get_token());
  });
  while (endpoint.accepted() == 0) std::this_thread::yield();
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<HttpStopped>(outcome.get()));
}

TEST(HttpClientTest, NothingIsAskedAfterAStop) {
  Endpoint endpoint({{Endpoint::Hold()}});
  std::stop_source stop;
  stop.request_stop();
  const HttpOutcome outcome = HttpClient().Do(Patient(endpoint.url()), stop.get_token());
  EXPECT_TRUE(std::holds_alternative<HttpStopped>(outcome));
}

TEST(HttpClientTest, AnswerAndItsEndHaveTheirOwnDeadlines) {
  Endpoint silent({{Endpoint::Read(), Endpoint::Hold()}});
  HttpRequest request = Patient(silent.url());
  request.answer_within = milliseconds(20);
  HttpFailure failure = Failure(request);
  EXPECT_EQ(failure.why, "no answer within 20ms");
  EXPECT_TRUE(failure.timed_out);
  EXPECT_FALSE(failure.answered);

  Endpoint endless({{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\n\r\nabc"), Endpoint::Hold()}});
  request = Patient(endless.url());
  request.whole_within = milliseconds(20);
  std::string heard;
  request.on_body = [&](std::string_view piece) {
    heard += piece;
    return true;
  };
  failure = Failure(request);
  // On a machine that does nothing for so long the first deadline may be met instead.
  EXPECT_THAT(failure.why, HasSubstr("within 20ms"));
  EXPECT_TRUE(failure.timed_out);
}

TEST(HttpClientTest, ABodyIsNeverKeptBeyondItsBound) {
  const std::string hundred(100, 'x');
  const std::vector<std::string> answers{
      AnswerWith(200, hundred),
      "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n64\r\n" + hundred + "\r\n0\r\n\r\n",
      "HTTP/1.1 200 x\r\n\r\n" + hundred};
  for (const std::string& answer : answers) {
    Endpoint endpoint({{Endpoint::Read(), Endpoint::Send(answer)}});
    HttpRequest request = Patient(endpoint.url());
    request.most_bytes = 99;
    EXPECT_EQ(Failure(request).why, "the answer is larger than 99 bytes");
    request.most_bytes = 100;
    EXPECT_EQ(Answered(request).body, hundred);
  }
  Endpoint endless({{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\n\r\n"), Endpoint::SendForever(hundred)}});
  HttpRequest request = Patient(endless.url());
  request.most_bytes = 100'000;
  EXPECT_EQ(Failure(request).why, "the answer is larger than 100000 bytes");
}

TEST(HttpClientTest, WhatComesCompressedIsMeasuredUnpacked) {
  const std::string hello = Bytes("1f8b08000000000002ffcb48cdc9c9070086a6103605000000");
  const std::string zeros =  // 100 000 of them
      Bytes("1f8b08000000000002ffedc13101000000c2a0f54f6d0d0fa0") + std::string(96, '\0') +
      Bytes("8057037d9511d4a0860100");
  Endpoint endpoint({{Endpoint::Serve([&](const SeenRequest& request) {
    return AnswerWith(200, request.line.find("/hello") != std::string::npos ? hello : zeros,
                      "content-encoding: gzip\r\n");
  })}});
  HttpRequest request = Patient(endpoint.url("/hello"));
  request.compressed = true;
  EXPECT_EQ(Answered(request).body, "hello");
  EXPECT_THAT(endpoint.requests()[0].header("accept-encoding"), HasSubstr("gzip"));
  request.url = endpoint.url("/zeros");
  request.most_bytes = 99'999;
  EXPECT_THAT(Failure(request).why, HasSubstr("larger than 99999 bytes"));
  request.most_bytes = 100'000;
  EXPECT_EQ(Answered(request).body.size(), 100'000u);
}

TEST(HttpClientTest, HeadersWithoutEndAreRefused) {
  Endpoint endpoint({{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\n"),
                      Endpoint::SendForever("header: " + std::string(1000, 'x') + "\r\n")}});
  EXPECT_EQ(Failure(Patient(endpoint.url())).why, "the answer's headers are too large");
}

TEST(HttpClientTest, AStreamIsHandedOverAsItComesUntilItIsEnough) {
  Endpoint endpoint({{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n"),
                      Endpoint::Send("2\r\nab\r\n"), Endpoint::Hold()}});
  std::string heard;
  HttpRequest request = Patient(endpoint.url());
  request.on_body = [&](std::string_view piece) {
    heard += piece;
    return heard != "ab";
  };
  const HttpAnswer answer = Answered(request);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(heard, "ab");
  EXPECT_TRUE(endpoint.AwaitEnded(1));
}

TEST(HttpClientTest, WhatAStreamIsRefusedWithIsKept) {
  Endpoint endpoint({{Endpoint::Serve(AnswerWith(401, "no"))}});
  HttpRequest request = Patient(endpoint.url());
  request.on_body = [](std::string_view) { return false; };
  EXPECT_EQ(Answered(request).body, "no");
}

TEST(HttpClientTest, PrivateHeadersStayWithTheirServer) {
  Endpoint other({{Endpoint::Serve(AnswerWith(200, "there"))}});
  Endpoint own({{Endpoint::Serve([&](const SeenRequest& request) {
    return Answer(302, request.line.find("/first") != std::string::npos ? "location: /second\r\n"
                                                                        : "location: " + other.url("/x") + "\r\n");
  })}});
  HttpRequest request = Patient(own.url("/first"));
  request.headers = {{"public", "p"}};
  request.private_headers = {{"authorization", "hunter2"}, {"x-key", "hunter2"}};
  request.most_redirects = 2;
  EXPECT_EQ(Answered(request).body, "there");
  ASSERT_EQ(own.requests().size(), 2u);
  EXPECT_EQ(own.requests()[1].line, "GET /second HTTP/1.1");
  EXPECT_EQ(own.requests()[1].header("x-key"), "hunter2");
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(other.requests()[0].header("public"), "p");
  EXPECT_EQ(other.requests()[0].header("authorization"), "<none>");
  EXPECT_EQ(other.requests()[0].header("x-key"), "<none>");

  request.most_redirects = 1;
  EXPECT_EQ(Failure(request).why, "too many redirects");
  request.most_redirects = 0;
  EXPECT_EQ(Answered(request).status, 302);
}

TEST(HttpClientTest, RedirectsNeverLeaveTls) {
  const test::TestCertificates certificates;
  Endpoint plain({{Endpoint::Serve(AnswerWith(200, "plain"))}});
  Endpoint tls({{Endpoint::Serve(Answer(301, "location: " + plain.url() + "\r\n"))}},
               {certificates.server(), certificates.key(), ""});
  HttpRequest request = Patient(tls.url());
  request.most_redirects = 3;
  EXPECT_EQ(Failure(request, Trust(certificates.ca())).why, "redirect from https to http");
  EXPECT_EQ(plain.accepted(), 0);
}

TEST(HttpClientTest, ServersAreVerified) {
  const test::TestCertificates certificates;
  Endpoint good({{Endpoint::Serve(AnswerWith(200, "tls"))}}, {certificates.server(), certificates.key(), ""});
  Endpoint expired({{Endpoint::Serve(Answer(200))}}, {certificates.expired(), certificates.key(), ""});
  EXPECT_EQ(Answered(Patient(good.url()), Trust(certificates.ca())).body, "tls");
  EXPECT_EQ(Failure(Patient(good.url())).why, "TLS: certificate not trusted");
  EXPECT_EQ(Failure(Patient(good.url()), Trust(certificates.missing())).why, "TLS: ca file cannot be used");
  EXPECT_EQ(Failure(Patient(expired.url()), Trust(certificates.ca())).why, "TLS: certificate expired");
  EXPECT_EQ(Answered(Patient(good.url()), Trust(certificates.ca(), "hooks.test")).body, "tls");
  EXPECT_EQ(good.last_sni(), "hooks.test");
  EXPECT_EQ(Failure(Patient(good.url()), Trust(certificates.ca(), "other.test")).why,
            "TLS: certificate is for another name");
}

TEST(HttpClientTest, ACertificateOfItsOwnIsShown) {
  const test::TestCertificates certificates;
  Endpoint endpoint({{Endpoint::Serve(AnswerWith(200, "known"))}},
                    {certificates.server(), certificates.key(), certificates.ca()});
  const Tls known{certificates.ca(), certificates.client(), certificates.key(), ""};
  EXPECT_EQ(Answered(Patient(endpoint.url()), known).body, "known");
  // The request may be refused by the closed connection before the alert is read.
  EXPECT_THAT(Failure(Patient(endpoint.url()), Trust(certificates.ca())).why,
              AnyOf("TLS: client certificate missing or refused by the server", "connection closed before an answer"));
}

TEST(HttpClientTest, WhatAServerSaysOfOurCertificateIsTold) {
  const auto told = [](std::string_view said) {
    ErrorBuffer buffer{};
    std::ranges::copy(said, buffer.begin());
    return AlertText(buffer);
  };
  for (const auto* what :
       {"tlsv13 alert certificate required, errno 0", "sslv3 alert bad certificate", "tlsv1 alert unknown ca",
        "ssl/tls alert certificate expired", "sslv3 alert certificate unknown"}) {
    EXPECT_EQ(told("error:0A000412:SSL routines::" + std::string(what)),
              "TLS: client certificate missing or refused by the server");
  }
  for (const auto* what : {"", "Recv failure: Connection reset by peer", "unable to get local issuer certificate",
                           "error:0A000410:SSL routines::sslv3 alert handshake failure"}) {
    EXPECT_EQ(told(what), "");
  }
}

TEST(HttpClientTest, FailuresAreToldInAFewWords) {
  Endpoint closing({{Endpoint::Read()}});
  EXPECT_EQ(Failure(Patient(closing.url())).why, "connection closed before an answer");
  Endpoint cutting({{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nabc")}});
  EXPECT_EQ(Failure(Patient(cutting.url())).why, "connection closed before the answer's end");
  Endpoint foreign({{Endpoint::Read(), Endpoint::Send("220 mail.example\r\n")}});
  EXPECT_EQ(Failure(Patient(foreign.url())).why, "not an HTTP answer");
  EXPECT_EQ(Failure(Patient("http://127.0.0.1:" + std::to_string(test::RefusingPort()))).why, "connect refused");
  EXPECT_EQ(Failure(Patient("ftp://127.0.0.1/")).why, "url cannot be used");
  EXPECT_EQ(Failure(Patient("http://")).why, "url cannot be used");
  HttpRequest broken = Patient(closing.url());
  broken.private_headers = {{"authorization", "hunter2\r\nx: y"}};
  EXPECT_THAT(Failure(broken).why, Not(HasSubstr("hunter2")));
}

TEST(HttpClientTest, UrlsAreShownWithoutWhatIsSecret) {
  EXPECT_EQ(ShownUrl("https://user:hunter2@host.example:8443/a/b?token=hunter2#x"), "https://host.example:8443/a/b");
  EXPECT_EQ(ShownUrl("not a url"), "an unusable url");
}

}  // namespace

void AwaitLetGo() {
  std::shared_ptr<SilentLookUp> look_up;
  {
    const std::lock_guard lock(silent_mutex);
    look_up = std::move(running_look_up);
  }
  look_up->asked.set_value();
  look_up->let_go.get_future().wait();
}

}  // namespace posthorn::config

// For libcurl, too: a name service that does not answer cannot be had otherwise.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  if (name != nullptr && std::string_view(name) == "silent.test") {
    posthorn::config::AwaitLetGo();
    return EAI_AGAIN;
  }
  static const auto of_libc = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return of_libc(name, service, hints, found);
}
