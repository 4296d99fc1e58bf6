// What the sender makes of whatever a server does with a request.
#include <gmock/gmock.h>

#include "tests/unit/http/sender_fixture.h"

namespace posthorn::http {
namespace {

using delivery::Verdict;
using test::Answer;
using test::ScriptedEndpoint;
using namespace std::chrono_literals;

class CurlSenderAnswersTest : public SenderTest {
 protected:
  Outcome After(ScriptedEndpoint::Script script) {
    script.insert(script.begin(), kRead());
    const Endpoint endpoint({std::move(script)});
    return DeliverTo(endpoint);
  }
  Outcome AfterBytes(std::string bytes) { return After({Endpoint::Send(std::move(bytes))}); }
};

TEST_F(CurlSenderAnswersTest, EachStatusBecomesItsClass) {
  const Endpoint endpoint(
      {{kRead(), Endpoint::Send(Answer(200)), kRead(), Endpoint::Send(Answer(204)), kRead(),
        Endpoint::Send(Answer(299)), kRead(), Endpoint::Send(Answer(301, "location: /other\r\n")), kRead(),
        Endpoint::Send(Answer(404)), kRead(), Endpoint::Send(Answer(410)), kRead(), Endpoint::Send(Answer(429)),
        kRead(), Endpoint::Send(Answer(500)), kRead(), Endpoint::Send(Answer(503)), Endpoint::Hold()}});
  const auto target = Prepare(Subscription(endpoint.url()));
  std::vector<std::pair<int, Verdict>> seen;
  for (int i = 0; i < 9; ++i) {
    const Outcome outcome = Deliver(target);
    seen.emplace_back(outcome.status, outcome.verdict);
    EXPECT_EQ(outcome.error, "");
  }
  EXPECT_THAT(seen,
              testing::ElementsAre(testing::Pair(200, Verdict::kDelivered), testing::Pair(204, Verdict::kDelivered),
                                   testing::Pair(299, Verdict::kDelivered), testing::Pair(301, Verdict::kRetry),
                                   testing::Pair(404, Verdict::kRejected), testing::Pair(410, Verdict::kRejected),
                                   testing::Pair(429, Verdict::kOverload), testing::Pair(500, Verdict::kRetry),
                                   testing::Pair(503, Verdict::kOverload)));
  EXPECT_EQ(endpoint.accepted(), 1) << "connections are kept alive, redirects are not followed";
  EXPECT_EQ(endpoint.requests().size(), 9u);
}

TEST_F(CurlSenderAnswersTest, ClientErrorsAreRetriedWhenTheSubscriptionSaysSo) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(422))}});
  auto subscription = Subscription(endpoint.url());
  subscription.retry_client_errors = true;
  EXPECT_EQ(Deliver(Prepare(subscription)).verdict, Verdict::kRetry);
}

TEST_F(CurlSenderAnswersTest, RetryAfterIsReadFromFailures) {
  EXPECT_EQ(AfterBytes(Answer(503, "Retry-After: 12\r\n")).retry_after, 12s);
  EXPECT_EQ(AfterBytes(Answer(429, "retry-after:   0\r\n")).retry_after, 0s);
  EXPECT_EQ(AfterBytes(Answer(503, "retry-after: soon\r\n")).retry_after, std::nullopt);
  EXPECT_EQ(AfterBytes(Answer(503, "retry-after: " + std::string(500, '1') + "\r\n")).retry_after, std::nullopt);
  EXPECT_EQ(AfterBytes(Answer(200, "retry-after: 12\r\n")).retry_after, std::nullopt);
}

TEST_F(CurlSenderAnswersTest, NothingListens) {
  const std::string url = "http://127.0.0.1:" + std::to_string(test::RefusingPort()) + "/";
  Attempt attempt;
  Start(Prepare(Subscription(url)), attempt);
  EXPECT_EQ(attempt.Await().verdict, Verdict::kRetry);
  EXPECT_EQ(attempt.outcome().status, 0);
  EXPECT_EQ(attempt.outcome().error, "connect refused");
  EXPECT_EQ(attempt.before_writes(), 0) << "no permit is used up by a connection that never was";
}

TEST_F(CurlSenderAnswersTest, UnknownHost) {
  const Outcome outcome = Deliver(Prepare(Subscription("http://no-such-host.invalid/")));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_THAT(outcome.error, testing::AnyOf("dns: not found", "timeout after 20s"));
}

TEST_F(CurlSenderAnswersTest, ClosedBeforeTheStatusLine) {
  const Outcome outcome = After({});
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.error, "connection closed before an answer");
}

TEST_F(CurlSenderAnswersTest, ResetBeforeTheStatusLine) {
  const Outcome outcome = After({Endpoint::Reset()});
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.error, "connection reset before an answer");
}

TEST_F(CurlSenderAnswersTest, HeadersCutOffAreNoAnswer) {
  for (const char* bytes : {"HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n"}) {
    const Outcome outcome = AfterBytes(bytes);
    EXPECT_EQ(outcome.verdict, Verdict::kRetry) << bytes;
    EXPECT_EQ(outcome.status, 0) << bytes;
    EXPECT_NE(outcome.error, "") << bytes;
  }
}

TEST_F(CurlSenderAnswersTest, BodyCutOffChangesNothing) {
  const std::string delivered = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc";
  EXPECT_EQ(AfterBytes(delivered).verdict, Verdict::kDelivered);
  EXPECT_EQ(After({Endpoint::Send(delivered), Endpoint::Reset()}).verdict, Verdict::kDelivered);
  const std::string chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nabc";
  EXPECT_EQ(AfterBytes(chunked).verdict, Verdict::kDelivered);
  const Outcome overload = AfterBytes("HTTP/1.1 503 x\r\ncontent-length: 100\r\nretry-after: 3\r\n\r\nabc");
  EXPECT_EQ(overload.verdict, Verdict::kOverload);
  EXPECT_EQ(overload.status, 503);
  EXPECT_EQ(overload.retry_after, 3s);
}

TEST_F(CurlSenderAnswersTest, EndlessBodyIsCutAndTheStatusCounts) {
  const std::string block(10'000, 'x');
  for (const auto& [head, verdict] : {std::pair{"HTTP/1.1 200 OK\r\n\r\n", Verdict::kDelivered},
                                      std::pair{"HTTP/1.1 500 x\r\n\r\n", Verdict::kRetry}}) {
    const Endpoint endpoint({{kRead(), Endpoint::Send(head), Endpoint::SendForever(block)}});
    EXPECT_EQ(DeliverTo(endpoint).verdict, verdict);
    EXPECT_TRUE(endpoint.AwaitEnded(1)) << "the connection is closed, not read to the end";
  }
}

TEST_F(CurlSenderAnswersTest, BodyUpToTheCapKeepsTheConnection) {
  const std::string body(options_.body_cap, 'x');
  const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  const Endpoint endpoint({{Endpoint::Serve(answer)}});
  const auto target = Prepare(Subscription(endpoint.url()));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  EXPECT_EQ(endpoint.accepted(), 1);
}

TEST_F(CurlSenderAnswersTest, EndlessHeadersAreAFailure) {
  for (const char* more :
       {"x-filler: 0123456789012345678901234567890123456789\r\n", "0123456789012345678901234567890"}) {
    const Endpoint endpoint({{kRead(), Endpoint::Send("HTTP/1.1 200 OK\r\nx-long: "), Endpoint::SendForever(more)}});
    const Outcome outcome = DeliverTo(endpoint);
    EXPECT_EQ(outcome.verdict, Verdict::kRetry) << more;
    EXPECT_THAT(outcome.error, testing::HasSubstr("too large")) << more;
    EXPECT_TRUE(endpoint.AwaitEnded(1));
  }
}

TEST_F(CurlSenderAnswersTest, TimeoutCoversTheWholeAnswer) {
  const std::vector<ScriptedEndpoint::Script> silent{{kRead(), Endpoint::Hold()}};
  const std::vector<ScriptedEndpoint::Script> dripping{
      {kRead(), Endpoint::Drip("HTTP/1.1 200 OK\r\nx-much: " + std::string(10'000, 'x'), 20ms)}};
  for (const auto& scripts : {silent, dripping}) {
    const Endpoint endpoint(scripts);
    auto subscription = Subscription(endpoint.url());
    subscription.timeout = 300ms;
    const Outcome outcome = Deliver(Prepare(subscription));
    EXPECT_EQ(outcome.verdict, Verdict::kRetry);
    EXPECT_EQ(outcome.error, "timeout after 300ms");
    EXPECT_GE(outcome.elapsed, 250ms);
  }
}

TEST_F(CurlSenderAnswersTest, StatusCountsThoughTheBodyRunsIntoTheTimeout) {
  const Endpoint endpoint({{kRead(), Endpoint::Send("HTTP/1.1 201 x\r\ncontent-length: 9\r\n\r\n"), Endpoint::Hold()}});
  auto subscription = Subscription(endpoint.url());
  subscription.timeout = 200ms;
  const Outcome outcome = Deliver(Prepare(subscription));
  EXPECT_EQ(outcome.verdict, Verdict::kDelivered);
  EXPECT_EQ(outcome.status, 201);
}

TEST_F(CurlSenderAnswersTest, InterimAnswersAreNotTheAnswer) {
  EXPECT_EQ(AfterBytes("HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + Answer(204)).status, 204);
  EXPECT_EQ(AfterBytes("HTTP/1.1 100 Continue\r\n\r\n" + Answer(503)).verdict, Verdict::kOverload);
  const Outcome outcome = AfterBytes("HTTP/1.1 102 Processing\r\n\r\n");
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.status, 0);
}

TEST_F(CurlSenderAnswersTest, WhatIsNotHttpIsAFailure) {
  for (const char* bytes : {"SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02", "HTTP/9.9 200 OK\r\n\r\n", "\r\n\r\n"}) {
    const Outcome outcome = AfterBytes(bytes);
    EXPECT_EQ(outcome.verdict, Verdict::kRetry) << bytes;
    EXPECT_EQ(outcome.status, 0) << bytes;
    EXPECT_NE(outcome.error, "") << bytes;
  }
}

TEST_F(CurlSenderAnswersTest, EarlyRefusalOfALargeBodyCounts) {
  const Endpoint endpoint({{Endpoint::Send(Answer(413, "connection: close\r\n")), Endpoint::Hold()}});
  const std::string megabytes(4u << 20, 'x');
  const Outcome outcome = Deliver(Prepare(Subscription(endpoint.url())), MakeRecord(megabytes));
  EXPECT_EQ(outcome.status, 413);
  EXPECT_EQ(outcome.verdict, Verdict::kRejected);
}

TEST_F(CurlSenderAnswersTest, TargetsThatCannotWorkSaySo) {
  auto subscription = Subscription("ftp://127.0.0.1/");
  EXPECT_EQ(Deliver(Prepare(subscription)).error, "endpoint is neither http nor https");
  subscription.endpoint = "http://";
  const Outcome outcome = Deliver(Prepare(subscription));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.error, "endpoint cannot be used");
}

}  // namespace
}  // namespace posthorn::http
