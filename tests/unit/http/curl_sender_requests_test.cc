// One permit, one request: what goes over the wire, and how often.
#include <gmock/gmock.h>

#include <memory>

#include "tests/unit/http/sender_fixture.h"
#include "worker/http/libcurl_support.h"

namespace posthorn::http {
namespace {

using delivery::HeaderView;
using delivery::Verdict;
using test::Answer;
using test::ScriptedEndpoint;
using test::SeenRequest;
using testing::Each;

class CurlSenderRequestsTest : public SenderTest {};

TEST_F(CurlSenderRequestsTest, SendsWhatIsPromisedAndNothingElse) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  auto subscription = Subscription(endpoint.url("/hooks/orders?x=1"));
  subscription.headers = {{"x-tenant", "acme"}};
  subscription.forward_headers = {"x-*"};
  Deliver(Prepare(subscription), MakeRecord("hello", {{"x-region", "eu"}, {"other", "no"}, {"x-empty", ""}}));
  ASSERT_EQ(endpoint.requests().size(), 1u);
  const SeenRequest request = endpoint.requests()[0];
  EXPECT_EQ(request.line, "POST /hooks/orders?x=1 HTTP/1.1");
  EXPECT_EQ(request.body, "hello");
  std::vector<std::string> names;
  for (const auto& [name, value] : request.headers) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("host", "content-length", "content-type", "webhook-id",
                                                   "webhook-timestamp", "posthorn-attempt", "posthorn-subscription",
                                                   "user-agent", "x-tenant", "x-region", "x-empty"));
  EXPECT_EQ(request.header("host"), "127.0.0.1:" + std::to_string(endpoint.port()));
  EXPECT_EQ(request.header("webhook-id"), "orders-3-7");
  EXPECT_EQ(request.header("webhook-timestamp"), "1700000000");
  EXPECT_EQ(request.header("posthorn-attempt"), "1");
  EXPECT_EQ(request.header("posthorn-subscription"), "billing");
  EXPECT_EQ(request.header("x-region"), "eu");
  EXPECT_EQ(request.header("x-empty"), "");
  EXPECT_THAT(request.header("user-agent"), testing::StartsWith("posthorn/"));
}

TEST_F(CurlSenderRequestsTest, NullIsAnEmptyBodyAndSaysSo) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  Deliver(target, MakeRecord(std::nullopt));
  Deliver(target, MakeRecord(""));
  ASSERT_EQ(endpoint.requests().size(), 2u);
  EXPECT_EQ(endpoint.requests()[0].header("content-length"), "0");
  EXPECT_EQ(endpoint.requests()[0].header("posthorn-null"), "true");
  EXPECT_EQ(endpoint.requests()[1].header("content-length"), "0");
  EXPECT_EQ(endpoint.requests()[1].header("posthorn-null"), "<none>");
}

TEST_F(CurlSenderRequestsTest, LargeAndBinaryBodiesArriveWhole) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  std::string body;
  for (std::size_t i = 0; i < (1u << 20); ++i) body.push_back(static_cast<char>(i * 7 + i / 256));
  EXPECT_EQ(Deliver(target, MakeRecord(body)).verdict, Verdict::kDelivered);
  EXPECT_EQ(Deliver(target, MakeRecord(std::string("\0\r\n\0", 4))).verdict, Verdict::kDelivered);
  ASSERT_EQ(endpoint.requests().size(), 2u);
  EXPECT_TRUE(endpoint.requests()[0].body == body);
  EXPECT_EQ(endpoint.requests()[0].header("expect"), "<none>");
  EXPECT_EQ(endpoint.requests()[1].body, std::string("\0\r\n\0", 4));
}

TEST_F(CurlSenderRequestsTest, RecordHeadersCannotInject) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  auto subscription = Subscription(endpoint.url());
  subscription.forward_headers = {"*"};
  const std::vector<HeaderView> hostile{{"x-a", "1\r\nx-injected: 1"},
                                        {"x-b\r\nx-injected", "1"},
                                        {"x-c", std::string_view("1\0002", 3)},
                                        {"x-d: 1\nx-injected", "1"},
                                        {"content-length", "1"},
                                        {"transfer-encoding", "chunked"},
                                        {"host", "elsewhere"},
                                        {"posthorn-subscription", "other"},
                                        {"webhook-id", "1\r\nx-injected: 1"},
                                        {"content-type", "a\r\nx-injected: 1"},
                                        {"@file", "x"},
                                        {"x-good", "1"}};
  EXPECT_EQ(Deliver(Prepare(subscription), MakeRecord("hello", hostile)).verdict, Verdict::kDelivered);
  const SeenRequest request = endpoint.requests().at(0);
  for (const char* name : {"x-injected", "x-a", "x-b", "x-c", "x-d", "transfer-encoding", "@file"}) {
    EXPECT_EQ(request.header(name), "<none>") << name;
  }
  EXPECT_EQ(request.header("content-length"), "5");
  EXPECT_EQ(request.header("posthorn-subscription"), "billing");
  EXPECT_EQ(request.header("webhook-id"), "orders-3-7");
  EXPECT_EQ(request.header("content-type"), "application/octet-stream");
  EXPECT_EQ(request.header("x-good"), "1");
}

TEST_F(CurlSenderRequestsTest, ADyingKeptConnectionIsNotSentOnAgain) {
  // The second request is read and the connection closed without an answer: libcurl would send it again by itself.
  const Endpoint endpoint({{kRead(), Endpoint::Send(Answer(200)), kRead()}, {Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  Attempt second;
  Start(target, second);
  EXPECT_EQ(second.Await().verdict, Verdict::kRetry);
  EXPECT_EQ(second.outcome().error, "connection closed before an answer");
  EXPECT_EQ(second.before_writes(), 1);
  EXPECT_EQ(endpoint.requests().size(), 2u) << "one request for each attempt";
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  EXPECT_EQ(endpoint.requests().size(), 3u);
}

TEST_F(CurlSenderRequestsTest, NoAttemptIsSeenTwiceByAServerThatClosesAfterEachAnswer) {
  // Without "connection: close": whether the sender notices before it uses the connection again is a matter of luck.
  const Endpoint endpoint({{kRead(), Endpoint::Send(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  constexpr std::size_t kAttempts = 200;
  std::size_t delivered = 0;
  for (std::size_t i = 0; i < kAttempts; ++i) {
    const Outcome outcome = Deliver(target, MakeRecord("x", {}, static_cast<delivery::Offset>(i)));
    if (outcome.verdict == Verdict::kDelivered) ++delivered;
    EXPECT_THAT(outcome.error,
                testing::AnyOf("", "connection closed before an answer", "connection reset before an answer"));
  }
  std::map<std::string, int> seen;
  for (const SeenRequest& request : endpoint.requests()) ++seen[request.header("webhook-id")];
  for (const auto& [id, count] : seen) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(seen.size(), delivered);
  EXPECT_GT(delivered, kAttempts / 4);
}

TEST_F(CurlSenderRequestsTest, TakenBackMeansNothingIsWritten) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  for (int i = 0; i < 3; ++i) {
    Attempt attempt;
    attempt.go = false;
    Start(target, attempt);
    EXPECT_EQ(attempt.Await().verdict, Verdict::kNotSent);
    EXPECT_EQ(attempt.before_writes(), 1);
  }
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  EXPECT_EQ(endpoint.requests().size(), 1u);
}

TEST_F(CurlSenderRequestsTest, ManyAtOnceAllArriveOnceAndReuseConnections) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  constexpr std::size_t kAtOnce = 150;  // more than one multi handle takes
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<Attempt>> attempts;
    for (std::size_t i = 0; i < kAtOnce; ++i) attempts.push_back(std::make_unique<Attempt>());
    CurlSender& s = sender();
    OnLoop([&] {
      for (auto& attempt : attempts) s.Send(target, MakeMessage(MakeRecord("hello")), *attempt);
      EXPECT_EQ(s.in_flight(), kAtOnce);
    });
    for (auto& attempt : attempts) {
      EXPECT_EQ(attempt->Await().verdict, Verdict::kDelivered);
      EXPECT_EQ(attempt->before_writes(), 1);
    }
    OnLoop([&] { EXPECT_EQ(s.in_flight(), 0u); });
  }
  EXPECT_EQ(endpoint.requests().size(), 4 * kAtOnce);
  EXPECT_LE(endpoint.accepted(), static_cast<int>(kAtOnce) + 64);
}

TEST_F(CurlSenderRequestsTest, ManyTargetsShareFewMultiHandles) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  std::vector<std::shared_ptr<delivery::Target>> targets;
  for (int i = 0; i < 100; ++i) targets.push_back(Prepare(Subscription(endpoint.url("/" + std::to_string(i)))));
  std::vector<std::unique_ptr<Attempt>> attempts;
  CurlSender& s = sender();
  OnLoop([&] {
    for (const auto& target : targets) {
      attempts.push_back(std::make_unique<Attempt>());
      s.Send(target, MakeMessage(MakeRecord("hello")), *attempts.back());
    }
  });
  for (auto& attempt : attempts) EXPECT_EQ(attempt->Await().verdict, Verdict::kDelivered);
  std::vector<std::string> lines;
  for (const SeenRequest& request : endpoint.requests()) lines.push_back(request.line);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(std::unique(lines.begin(), lines.end()), lines.end());
  EXPECT_EQ(lines.size(), 100u);
  OnLoop([&] { targets.clear(); });  // the last holder of a target lets go on the loop
}

TEST_F(CurlSenderRequestsTest, Http2IsRefusedWhereItCannotBeTrusted) {
  std::string why;
  const bool available = Http2Available(&why);
  EXPECT_EQ(available, why.empty());
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  auto subscription = Subscription(endpoint.url());
  subscription.http = config::HttpVersion::k2;
  subscription.timeout = std::chrono::seconds(1);  // some versions wait for an HTTP/2 answer until then
  const Outcome outcome = Deliver(Prepare(subscription));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry) << "the endpoint speaks HTTP/1.1 only";
  EXPECT_EQ(outcome.status, 0);
  if (!available) {
    EXPECT_EQ(outcome.error, why);
  }
}

}  // namespace
}  // namespace posthorn::http
