// Endpoints that answer as no decent one would, all at the same sender: each attempt ends in its class, and a calm
// endpoint's deliveries go on meanwhile. What becomes of a single strange answer is in curl_sender_answers_test.cc.
#include <gmock/gmock.h>

#include <iostream>
#include <list>

#include "tests/unit/http/sender_fixture.h"
#include "worker/http/libcurl_support.h"
#include "worker/http/response_class.h"

namespace posthorn::http {
namespace {

using delivery::Verdict;
using test::Answer;
using test::Http2Frame;
using namespace std::chrono_literals;
using Script = test::ScriptedEndpoint::Script;

class HostileEndpointsTest : public SenderTest {
 protected:
  struct Hostile {
    std::string what;
    Script script;
    Verdict verdict;
    int status;
    std::string error;  // a part of it; empty: none at all
    std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
    /// Goes on until the attempt's time limit or until the sender has had enough of it.
    bool takes_long = false;
  };

  static std::vector<Hostile> Zoo() {
    const auto read = Endpoint::Read;
    const auto send = Endpoint::Send;
    const auto retry_after = [&](const std::string& value) {
      return Script{read(), send(Answer(503, "retry-after: " + value + "\r\n"))};
    };
    std::string many = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n";
    for (int i = 0; i < 10'000; ++i) many += "x-" + std::to_string(i) + ": some value\r\n";
    many += "\r\n";
    const std::string year_1970 = "Thu, 01 Jan 1970 00:00:01 GMT";
    const std::string filler(4'000, 'x');
    const std::string line = "x-more: " + filler + "\r\n";
    const auto retry = Verdict::kRetry;
    const auto overload = Verdict::kOverload;
    const auto delivered = Verdict::kDelivered;
    return {
        {"endless headers", {read(), send("HTTP/1.1 200 OK\r\n"), Endpoint::SendForever(line)}, retry, 0, "too large"},
        {"endless header",
         {read(), send("HTTP/1.1 200 OK\r\nx: "), Endpoint::SendForever(filler)},
         retry,
         0,
         "too large"},
        {"endless body", {read(), send("HTTP/1.1 200 OK\r\n\r\n"), Endpoint::SendForever(filler)}, delivered, 200, ""},
        {"endless chunks",
         {read(), send("HTTP/1.1 500 x\r\ntransfer-encoding: chunked\r\n\r\n"), Endpoint::SendForever("1\r\nx\r\n")},
         retry,
         500,
         ""},
        {"10 000 headers", {read(), send(many)}, retry, 0, "too large"},
        {"endless interim answers",
         {read(), Endpoint::SendForever("HTTP/1.1 102 Processing\r\n\r\n")},
         retry,
         0,
         "too large"},
        {"slow drip of headers",
         {read(), Endpoint::Drip("HTTP/1.1 200 OK\r\nx-slow: " + std::string(60'000, 'x'), 10ms)},
         retry,
         0,
         "timeout after",
         {},
         true},
        {"slow drip of a body",
         {read(), send("HTTP/1.1 503 x\r\ncontent-length: 60000\r\nretry-after: 7\r\n\r\n"),
          Endpoint::Drip(std::string(60'000, 'x'), 10ms)},
         overload,
         503,
         "",
         7s,
         true},
        {"silence", {read(), Endpoint::Hold()}, retry, 0, "timeout after", {}, true},
        {"status of two digits", {read(), send("HTTP/1.1 20 OK\r\n\r\n")}, retry, 0, "not an HTTP answer"},
        {"no status", {read(), send("HTTP/1.1 abc\r\n\r\n")}, retry, 0, "not an HTTP answer"},
        {"status 999", {read(), send("HTTP/1.1 999 x\r\ncontent-length: 0\r\n\r\n")}, retry, 999, ""},
        {"another protocol", {read(), send("220 mail ESMTP\r\n250 ok\r\n")}, retry, 0, "not an HTTP answer"},
        {"retry-after -1", retry_after("-1"), overload, 503, ""},
        {"retry-after 10^18", retry_after("1000000000000000000"), overload, 503, "", kMaxRetryAfter},
        {"retry-after 1970", retry_after(year_1970), overload, 503, "", 0s},
        {"closed before the status line", {read()}, retry, 0, "closed before an answer"},
        {"closed unread", {}, retry, 0, "before an answer"},
        {"reset before the status line", {read(), Endpoint::Reset()}, retry, 0, "reset before an answer"},
        {"closed after the status line", {read(), send("HTTP/1.1 200 OK\r\n")}, retry, 0, "cut off in its headers"},
        {"reset after the status line", {read(), send("HTTP/1.1 200 OK\r\n"), Endpoint::Reset()}, retry, 0, "reset"},
        {"closed after the headers",
         {read(), send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")},
         delivered,
         200,
         ""},
    };
  }

  struct Running {
    Running(const Hostile& h) : hostile(h), endpoint({h.script}) {}
    const Hostile& hostile;
    Endpoint endpoint;
    Attempt attempt;
  };
};

TEST_F(HostileEndpointsTest, EachEndsInItsClassAndNoOtherIsHeldUp) {
  const auto zoo = Zoo();
  const Endpoint calm({{Endpoint::Serve(Answer(200))}});
  const auto calm_target = Prepare(Subscription(calm.url()));
  std::list<Running> running;
  for (const Hostile& hostile : zoo) {
    auto& one = running.emplace_back(hostile);
    auto subscription = Subscription(one.endpoint.url());
    subscription.name = hostile.what;
    subscription.timeout = hostile.takes_long ? 2s : 30s;
    Start(Prepare(subscription), one.attempt);
  }
  constexpr int kCalm = 100;
  for (int i = 0; i < kCalm; ++i) EXPECT_EQ(Deliver(calm_target).verdict, Verdict::kDelivered);
  EXPECT_EQ(calm.requests().size(), std::size_t{kCalm});
  EXPECT_EQ(calm.accepted(), 1) << "its connection is not given up for the others";
  for (auto& one : running) {
    const Outcome& outcome = one.attempt.Await();
    EXPECT_EQ(outcome.verdict, one.hostile.verdict) << one.hostile.what << ": " << outcome.error;
    EXPECT_EQ(outcome.status, one.hostile.status) << one.hostile.what << ": " << outcome.error;
    EXPECT_EQ(outcome.retry_after, one.hostile.retry_after) << one.hostile.what;
    if (one.hostile.error.empty()) {
      EXPECT_EQ(outcome.error, "") << one.hostile.what;
    } else {
      EXPECT_THAT(outcome.error, testing::HasSubstr(one.hostile.error)) << one.hostile.what;
    }
  }
  OnLoop([] {});
  for (auto& one : running) {
    EXPECT_EQ(one.attempt.finishes(), 1) << one.hostile.what;
    EXPECT_EQ(one.attempt.before_writes(), 1) << one.hostile.what << ": one permit";
    EXPECT_LE(one.endpoint.requests().size(), 1u) << one.hostile.what << ": sent again";
    EXPECT_TRUE(one.endpoint.AwaitEnded(1)) << one.hostile.what << ": the connection is left open";
  }
}

TEST_F(HostileEndpointsTest, SilenceOnEveryRequestHoldsUpNobodyElse) {
  const Endpoint silent({{Endpoint::Read(), Endpoint::Hold()}});
  const Endpoint calm({{Endpoint::Serve(Answer(200))}});
  const auto silent_target = Prepare(Subscription(silent.url()));
  const auto calm_target = Prepare(Subscription(calm.url()));
  constexpr std::size_t kSilent = 64;
  std::list<Attempt> attempts(kSilent);
  for (Attempt& attempt : attempts) Start(silent_target, attempt);
  ASSERT_TRUE(silent.AwaitRequests(kSilent));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Deliver(calm_target).verdict, Verdict::kDelivered);
  CurlSender& s = sender();
  OnLoop([&] {
    for (Attempt& attempt : attempts) {
      EXPECT_EQ(attempt.finishes(), 0);
      s.Cancel(attempt);
    }
  });
  for (Attempt& attempt : attempts) EXPECT_EQ(attempt.Await().verdict, Verdict::kRetry);
  EXPECT_TRUE(silent.AwaitEnded(kSilent));
}

// HTTP/2 frames.
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kRstStream = 3;
constexpr std::uint8_t kSettings = 4;
constexpr std::uint8_t kGoAway = 7;
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kEndHeaders = 4;
const std::string kStatus200 = "\x88";  // the static table's `:status: 200`

std::string Number(std::uint32_t value) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>((value >> shift) & 0xFFU);
  return bytes;
}

TEST_F(HostileEndpointsTest, Http2GoAwayAndReset) {
  std::string why;
  if (!Http2Available(&why)) {
    std::cout << "not run: " << why << std::endl;
    return;
  }
  const std::string settings = Http2Frame(kSettings, 0, 0, "");
  const std::string answer = Http2Frame(kHeaders, kEndHeaders | kEndStream, 1, kStatus200);
  const auto go_away = [&](std::uint32_t last, std::uint32_t error) {
    return Http2Frame(kGoAway, 0, 0, Number(last) + Number(error));
  };
  const auto reset = [&](std::uint32_t error) { return Http2Frame(kRstStream, 0, 1, Number(error)); };
  struct Case {
    std::string what;
    std::string bytes;
    Verdict verdict;
    std::string later;  // once what came before has been read
  };
  for (const Case& one : std::vector<Case>{
           {"an answer", answer, Verdict::kDelivered, {}},
           {"GOAWAY before this stream", go_away(0, 0), Verdict::kRetry, {}},
           {"GOAWAY with an error", go_away(0, 2), Verdict::kRetry, {}},
           {"GOAWAY after this stream, then its answer", go_away(1, 0) + answer, Verdict::kDelivered, {}},
           {"GOAWAY after this stream and no answer", go_away(1, 0), Verdict::kRetry, {}},
           {"RST with an error", reset(2), Verdict::kRetry, {}},
           {"RST that refuses the stream", reset(7), Verdict::kRetry, {}},
           {"RST after the status", Http2Frame(kHeaders, kEndHeaders, 1, kStatus200), Verdict::kDelivered, reset(2)},
       }) {
    const Endpoint endpoint(
        {{Endpoint::ReadHttp2(), Endpoint::Send(settings + one.bytes), Endpoint::Drip(one.later, 20ms)}});
    auto subscription = Subscription(endpoint.url());
    subscription.http = config::HttpVersion::k2;
    const Outcome outcome = Deliver(Prepare(subscription));
    EXPECT_EQ(outcome.verdict, one.verdict) << one.what << ": " << outcome.error;
    EXPECT_EQ(endpoint.requests().size(), 1u) << one.what << ": sent again";
  }
}

}  // namespace
}  // namespace posthorn::http
