#include <gmock/gmock.h>

#include "tests/support/test_certificates.h"
#include "tests/unit/http/sender_fixture.h"

namespace posthorn::http {
namespace {

using delivery::Verdict;
using test::Answer;

class CurlSenderTlsTest : public SenderTest {
 protected:
  static void SetUpTestSuite() { certificates_ = std::make_unique<test::TestCertificates>(); }
  static void TearDownTestSuite() { certificates_.reset(); }
  static const test::TestCertificates& certificates() { return *certificates_; }

  static test::EndpointTls ServerTls() { return {certificates().server(), certificates().key(), ""}; }

  config::Subscription Trusting(const std::string& endpoint) {
    auto subscription = Subscription(endpoint);
    subscription.tls.ca = certificates().ca();
    return subscription;
  }

 private:
  static inline std::unique_ptr<test::TestCertificates> certificates_;
};

TEST_F(CurlSenderTlsTest, TrustedServerGetsTheMessageAndKeepsTheConnection) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, ServerTls());
  const auto target = Prepare(Trusting(endpoint.url()));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  EXPECT_EQ(endpoint.accepted(), 1);
  EXPECT_EQ(endpoint.requests().at(0).body, "hello");
}

TEST_F(CurlSenderTlsTest, UntrustedServerGetsNothing) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, ServerTls());
  Attempt attempt;
  Start(Prepare(Subscription(endpoint.url())), attempt);
  EXPECT_EQ(attempt.Await().verdict, Verdict::kRetry);
  EXPECT_EQ(attempt.outcome().error, "TLS: certificate not trusted");
  EXPECT_EQ(attempt.before_writes(), 0);
  EXPECT_TRUE(endpoint.requests().empty());
}

TEST_F(CurlSenderTlsTest, CertificateForAnotherNameOrTimeIsRefused) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, ServerTls());
  auto subscription = Trusting("https://localhost:" + std::to_string(endpoint.port()) + "/");
  EXPECT_EQ(Deliver(Prepare(subscription)).error, "TLS: certificate is for another name");
  const Endpoint late({{Endpoint::Serve(Answer(200))}}, {certificates().expired(), certificates().key(), ""});
  EXPECT_EQ(Deliver(Prepare(Trusting(late.url()))).error, "TLS: certificate expired");
  EXPECT_TRUE(endpoint.requests().empty());
  EXPECT_TRUE(late.requests().empty());
}

TEST_F(CurlSenderTlsTest, ServerNameIsAskedForAndVerifiedInsteadOfTheHost) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, ServerTls());
  auto subscription = Trusting(endpoint.url("/hook"));
  subscription.tls.server_name = "hooks.test";
  EXPECT_EQ(Deliver(Prepare(subscription)).verdict, Verdict::kDelivered);
  EXPECT_EQ(endpoint.last_sni(), "hooks.test");
  EXPECT_EQ(endpoint.requests().at(0).header("host"), "127.0.0.1:" + std::to_string(endpoint.port()));
  subscription.tls.server_name = "other.test";
  EXPECT_EQ(Deliver(Prepare(subscription)).error, "TLS: certificate is for another name");
  EXPECT_EQ(endpoint.requests().size(), 1u);
}

TEST_F(CurlSenderTlsTest, ClientCertificateIsShownWhenConfigured) {
  auto tls = ServerTls();
  tls.client_ca = certificates().ca();
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, tls);
  auto subscription = Trusting(endpoint.url());
  EXPECT_EQ(Deliver(Prepare(subscription)).verdict, Verdict::kRetry);
  EXPECT_TRUE(endpoint.requests().empty());
  subscription.tls.certificate = certificates().client();
  subscription.tls.key = certificates().key();
  EXPECT_EQ(Deliver(Prepare(subscription)).verdict, Verdict::kDelivered);
}

TEST_F(CurlSenderTlsTest, UnusableFilesAreNamedByKind) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}}, ServerTls());
  auto subscription = Trusting(endpoint.url());
  subscription.tls.certificate = certificates().missing();
  subscription.tls.key = certificates().key();
  EXPECT_EQ(Deliver(Prepare(subscription)).error, "TLS: client certificate or key cannot be used");
  subscription = Subscription(endpoint.url());
  subscription.tls.ca = certificates().missing();
  EXPECT_EQ(Deliver(Prepare(subscription)).error, "TLS: ca file cannot be used");
}

TEST_F(CurlSenderTlsTest, ServerThatSpeaksNoTls) {
  const Endpoint plain({{Endpoint::Send("hello?\r\n"), Endpoint::Hold()}});
  const Outcome outcome = Deliver(Prepare(Subscription("https://127.0.0.1:" + std::to_string(plain.port()))));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.error, "TLS: handshake failed");
}

TEST_F(CurlSenderTlsTest, BodyCutOffChangesNothing) {
  const Endpoint endpoint(
      {{Endpoint::Read(), Endpoint::Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"), Endpoint::Reset()}},
      ServerTls());
  const Outcome outcome = Deliver(Prepare(Trusting(endpoint.url())));
  EXPECT_EQ(outcome.verdict, Verdict::kDelivered) << outcome.error;
}

}  // namespace
}  // namespace posthorn::http
