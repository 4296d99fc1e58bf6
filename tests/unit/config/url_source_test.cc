#include "config/sources/url_source.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "config/sources/http_client.h"
#include "tests/support/scripted_endpoint.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/source_follower.h"

namespace posthorn::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Answer;
using test::AnswerWith;
using test::ScriptedEndpoint;
using test::SeenRequest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

using Endpoint = ScriptedEndpoint;

// Only what a test is about may end a request, or ask again.
constexpr UrlTiming kPatient{
    .unconditional = hours(1), .etag_settles = milliseconds(0), .answer_within = hours(1), .whole_within = hours(1)};

UrlSettings Settings(const std::string& url, milliseconds every = milliseconds(1)) {
  return {.url = url, .every = every, .headers = {}, .ca = ""};
}

SourceFollower Follow(UrlSettings settings, UrlTiming timing = kPatient,
                      const Environment& environment = SystemEnvironment()) {
  return SourceFollower(std::make_unique<UrlSource>(std::move(settings), environment, timing));
}

// A server as nginx is one: ETags, and 304 where the asker has the newest.
class Web {
 public:
  explicit Web(std::string text) : text_(std::move(text)) {}
  Endpoint::Step Serve() {
    return Endpoint::Serve([this](const SeenRequest& request) {
      const std::lock_guard lock(mutex_);
      const std::string etag = "ETag: " + etag_ + "\r\n";
      if (!etag_.empty() && request.header("if-none-match") == etag_) return Answer(304, etag);
      ++whole_;
      return AnswerWith(200, text_, etag_.empty() ? "" : etag);
    });
  }
  void Put(const std::string& text, const std::string& etag) {
    const std::lock_guard lock(mutex_);
    text_ = text;
    etag_ = etag;
  }
  int whole() {
    const std::lock_guard lock(mutex_);
    return whole_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::string etag_ = "W/\"1-a\"";
  int whole_ = 0;
};

TEST(UrlSourceTest, AsksWithItsETagAndReadsWhatHasChanged) {
  Web web("one");
  Endpoint endpoint({{web.Serve()}});
  SourceFollower follower = Follow(Settings(endpoint.url("/conf/orders.yaml?token=hunter2")));
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("orders.yaml", "one")));
  EXPECT_EQ(follower.number(), "W/\"1-a\"");
  ASSERT_TRUE(endpoint.AwaitRequests(1));
  auto next = std::async(std::launch::async, [&] { return follower.NextFiles(); });
  ASSERT_TRUE(endpoint.AwaitRequests(4));
  EXPECT_EQ(web.whole(), 1) << "nothing is sent while nothing changes";
  web.Put("two", "\"2\"");
  EXPECT_THAT(next.get(), ElementsAre(Pair("orders.yaml", "two")));
  const auto seen = endpoint.requests();
  EXPECT_EQ(seen[0].line, "GET /conf/orders.yaml?token=hunter2 HTTP/1.1");
  EXPECT_EQ(seen[0].header("if-none-match"), "<none>");
  EXPECT_THAT(seen[0].header("accept-encoding"), HasSubstr("gzip"));
  EXPECT_EQ(seen[1].header("if-none-match"), "W/\"1-a\"") << "verbatim";
  EXPECT_EQ(endpoint.accepted(), 1) << "one connection";
}

TEST(UrlSourceTest, AnETagThatTellsNothingIsNotBelievedForLong) {
  Web web("one");
  Endpoint endpoint({{web.Serve()}});
  UrlTiming timing = kPatient;
  timing.unconditional = milliseconds(20);
  SourceFollower follower = Follow(Settings(endpoint.url("/")), timing);
  follower.NextFiles();
  web.Put("two", "W/\"1-a\"");  // changed within a second, with the same size
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("document", "two")));
}

TEST(UrlSourceTest, ANewETagIsNotBelievedAtOnce) {
  Web web("one");
  Endpoint endpoint({{web.Serve()}});
  UrlTiming timing = kPatient;
  timing.etag_settles = hours(1);
  SourceFollower follower = Follow(Settings(endpoint.url("/")), timing);
  follower.NextFiles();
  web.Put("two", "W/\"1-a\"");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("document", "two")));
}

TEST(UrlSourceTest, WithoutETagsTheContentIsCompared) {
  Web web("one");
  web.Put("one", "");
  Endpoint endpoint({{web.Serve()}});
  SourceFollower follower = Follow(Settings(endpoint.url("/")));
  follower.NextFiles();
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(milliseconds(30))));
  EXPECT_GT(web.whole(), 1);
}

TEST(UrlSourceTest, TheFirstAnswerIsAtOnceAndTheOthersWait) {
  Web web("one");
  Endpoint endpoint({{web.Serve()}});
  SourceFollower follower = Follow(Settings(endpoint.url("/"), hours(1)));
  follower.NextFiles();
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(milliseconds(5))));
  EXPECT_EQ(endpoint.requests().size(), 1u);
  std::stop_source stop;
  auto next = std::async(std::launch::async, [&] { return follower.Next(hours(1), stop.get_token()); });
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
}

TEST(UrlSourceTest, AStopEndsARequestToo) {
  Endpoint endpoint({{Endpoint::Read(), Endpoint::Hold()}});
  SourceFollower follower = Follow(Settings(endpoint.url("/")));
  std::stop_source stop;
  auto next = std::async(std::launch::async, [&] { return follower.Next(hours(1), stop.get_token()); });
  ASSERT_TRUE(endpoint.AwaitRequests(1));
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
}

TEST(UrlSourceTest, WhatIsNoDocumentIsAFailure) {
  Endpoint endpoint({{Endpoint::ServeInTurn({AnswerWith(404, "nothing here"), Answer(401), Answer(403),
                                             Answer(503, "Retry-After: 7\r\n"), Answer(304),
                                             AnswerWith(200, std::string(kMaxDocumentBytes + 1, ' '))})}});
  SourceFollower follower = Follow(Settings(endpoint.url("/orders.yaml?token=hunter2")));
  const Failed missing = follower.NextFailure();
  EXPECT_THAT(missing.why, AllOf(HasSubstr("/orders.yaml: answers 404"), Not(HasSubstr("hunter2"))));
  EXPECT_TRUE(missing.retryable);
  EXPECT_FALSE(follower.NextFailure().retryable);
  EXPECT_FALSE(follower.NextFailure().retryable);
  EXPECT_EQ(follower.NextFailure().retry_after, seconds(7));
  EXPECT_THAT(follower.NextFailure().why, HasSubstr("answers 304")) << "nobody has asked for that";
  EXPECT_THAT(follower.NextFailure().why, HasSubstr("larger than"));
}

TEST(UrlSourceTest, AServerThatIsAwayIsAFailureAndWhenItIsBackAllIsRead) {
  SourceFollower nobody = Follow(Settings("http://127.0.0.1:" + std::to_string(test::RefusingPort()) + "/"));
  EXPECT_THAT(nobody.NextFailure().why, HasSubstr("refused"));
  Endpoint endpoint({{Endpoint::ServeInTurn(
      {AnswerWith(200, "one", "ETag: \"1\"\r\n"), Answer(502), AnswerWith(200, "one", "ETag: \"1\"\r\n")})}});
  SourceFollower follower = Follow(Settings(endpoint.url("/")));
  follower.NextFiles();
  follower.NextFailure();
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("document", "one")));
  EXPECT_EQ(endpoint.requests().at(2).header("if-none-match"), "<none>");
}

TEST(UrlSourceTest, HeadersAreReadAnewForEachRequest) {
  std::atomic<int> reads = 0;
  Environment environment = FakeEnvironment({});
  environment.read_file = [&](const std::string& path, std::string* why) -> std::optional<std::string> {
    EXPECT_EQ(path, "/run/secrets/config");
    if (++reads == 2) {
      *why = "No such file or directory";
      return std::nullopt;
    }
    return "Bearer hunter" + std::to_string(reads) + "\n";
  };
  Endpoint endpoint({{Endpoint::Serve(AnswerWith(200, "one"))}});
  UrlSettings settings = Settings(endpoint.url("/"));
  settings.headers = {{"authorization", {"", "/run/secrets/config"}}, {"x-tenant", {"acme", ""}}};
  SourceFollower follower = Follow(settings, kPatient, environment);
  follower.NextFiles();
  EXPECT_THAT(follower.NextFailure().why, AllOf(HasSubstr("/run/secrets/config"), Not(HasSubstr("hunter"))));
  follower.NextFiles();
  const auto seen = endpoint.requests();
  EXPECT_EQ(seen.at(0).header("authorization"), "Bearer hunter1");
  EXPECT_EQ(seen.at(1).header("authorization"), "Bearer hunter3");
  EXPECT_EQ(seen.at(1).header("x-tenant"), "acme");
}

TEST(UrlSourceTest, ARedirectIsFollowedButTakesNoSecretElsewhere) {
  Endpoint other({{Endpoint::Serve(AnswerWith(200, "moved"))}});
  Endpoint own({{Endpoint::Serve([&](const SeenRequest& request) {
    const bool first = request.line.find("/first") != std::string::npos;
    return Answer(302, "Location: " + (first ? std::string("/second") : other.url("/there.yaml")) + "\r\n");
  })}});
  UrlSettings settings = Settings(own.url("/first"));
  settings.headers = {{"authorization", {"Bearer hunter2", ""}}};
  SourceFollower follower = Follow(settings);
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("first", "moved")));
  for (const auto& seen : own.requests()) EXPECT_EQ(seen.header("authorization"), "Bearer hunter2");
  EXPECT_EQ(other.requests().at(0).header("authorization"), "<none>");

  Endpoint endless({{Endpoint::Serve(Answer(302, "Location: /\r\n"))}});
  EXPECT_THAT(Follow(Settings(endless.url("/"))).NextFailure().why, HasSubstr("redirects"));
  EXPECT_EQ(endless.requests().size(), 6u);
}

TEST(UrlSourceTest, TheServersCertificateIsVerified) {
  const test::TestCertificates certificates;
  Endpoint endpoint({{Endpoint::Serve(AnswerWith(200, "one"))}}, {certificates.server(), certificates.key(), ""});
  UrlSettings settings = Settings(endpoint.url("/"));
  EXPECT_FALSE(Follow(settings).NextFailure().why.empty()) << "the system does not know this authority";
  settings.ca = certificates.ca();
  EXPECT_THAT(Follow(settings).NextFiles(), ElementsAre(Pair("document", "one")));
}

TEST(UrlSourceTest, RetryAfterInBothForms) {
  const ratelimit::WallTime now = ratelimit::StartOf(784'111'777);  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(ParseRetryAfter("0", now), milliseconds(0));
  EXPECT_EQ(ParseRetryAfter("120", now), seconds(120));
  EXPECT_EQ(ParseRetryAfter("999999999", now), hours(24));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:07 GMT", now), seconds(30));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:00:00 GMT", now), milliseconds(0));
  for (const char* text : {"", "soon", "-1", "1.5", "99999999999", "1994-11-06"}) {
    EXPECT_EQ(ParseRetryAfter(text, now), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace posthorn::config
