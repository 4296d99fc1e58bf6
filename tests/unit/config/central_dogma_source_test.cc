#include "config/sources/central_dogma_source.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "config/load.h"
#include "tests/support/fake_central_dogma.h"
#include "tests/support/scripted_endpoint.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/golden_file.h"
#include "tests/unit/config/source_follower.h"

namespace posthorn::config {
namespace {

using test::Answer;
using test::AnswerWith;
using test::FakeCentralDogma;
using test::ScriptedEndpoint;
using test::SeenRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using Files = SourceFollower::Files;

CentralDogmaSettings DogmaAt(const std::string& url, const std::string& path = "/**") {
  return {.url = url, .project = "delivery", .repository = "cfg", .path = path, .token = {}, .ca = ""};
}

SourceFollower FollowDogma(const std::string& url, const std::string& path = "/**") {
  return SourceFollower(std::make_unique<CentralDogmaSource>(DogmaAt(url, path)));
}

const std::string kRevision2 = AnswerWith(200, "{\"revision\":2}");

TEST(CentralDogmaSourceTest, AsksAsTheServerWantsIt) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn(
      {kRevision2, AnswerWith(200, R"([{"path":"/a.yaml","type":"TEXT","content":"a: 1\n"}])"),
       AnswerWith(200, "{\"revision\":5}"), AnswerWith(200, R"([{"path":"/a.yaml","type":"TEXT","content":"a: 2\n"}])"),
       Answer(304)})}});
  SourceFollower follower = FollowDogma(endpoint.url(""), "/subscriptions/");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a.yaml", "a: 1\n")));
  EXPECT_EQ(follower.number(), "2");
  EXPECT_TRUE(std::holds_alternative<Changed>(follower.Next(std::chrono::seconds(30))));
  EXPECT_THAT(follower.files(), ElementsAre(Pair("/a.yaml", "a: 2\n")));
  EXPECT_EQ(follower.number(), "5");
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(std::chrono::seconds(30))));
  const auto seen = endpoint.requests();
  const std::string base = "GET /api/v1/projects/delivery/repos/cfg";
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_EQ(seen[0].line, base + "/revision/-1 HTTP/1.1");
  EXPECT_EQ(seen[1].line, base + "/contents/subscriptions/**?revision=2 HTTP/1.1");
  EXPECT_EQ(seen[2].line, base + "/contents/subscriptions/** HTTP/1.1");
  EXPECT_EQ(seen[2].header("if-none-match"), "2");
  EXPECT_THAT(seen[2].header("prefer"), ::testing::AnyOf("wait=30", "wait=29"));
  EXPECT_EQ(seen[3].line, base + "/contents/subscriptions/**?revision=5 HTTP/1.1");
  EXPECT_EQ(seen[4].header("if-none-match"), "5");
  for (const SeenRequest& request : seen) EXPECT_EQ(request.header("authorization"), "Bearer anonymous");
  EXPECT_EQ(endpoint.accepted(), 1);
}

TEST(CentralDogmaSourceTest, OneFileIsAskedForAsAPattern) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({kRevision2, Answer(204)})}});
  EXPECT_THAT(FollowDogma(endpoint.url(""), "/a b.yaml").NextFiles(), IsEmpty());
  EXPECT_THAT(endpoint.requests().at(1).line, HasSubstr("/contents/a%20b.yaml,/a%20b.yaml?revision=2"));
}

TEST(CentralDogmaSourceTest, EntriesBecomeDocuments) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({kRevision2, AnswerWith(200, R"([
      {"path":"/s","type":"DIRECTORY"},
      {"path":"/s/a.json","type":"JSON","content":{"defaults":{"http":1.1,"backoff":{"multiplier":0.3}},"instances":3,"subscriptions":[]}},
      {"path":"/s/b.yml","type":"TEXT","content":"# b\n"},
      {"path":"/s/c.yaml","type":"YAML","content":"# c\n"},
      {"path":"/s/oops.json","type":"JSON","content":"{oops"},
      {"path":"/s/README.md","type":"TEXT","content":"read me"}])")})}});
  SourceFollower follower = FollowDogma(endpoint.url(""));
  EXPECT_THAT(follower.NextFiles(),
              ElementsAre(Pair("/s/a.json",
                               "{\n  \"defaults\": {\n    \"http\": 1.1,\n    \"backoff\": {\n      \"multiplier\": "
                               "0.3\n    }\n  },\n  \"instances\": 3,\n  \"subscriptions\": []\n}\n"),
                          Pair("/s/b.yml", "# b\n"), Pair("/s/c.yaml", "# c\n"), Pair("/s/oops.json", "\"{oops\"\n")));
  EXPECT_FALSE(LoadSubscriptions({{"/s/oops.json", follower.files().at("/s/oops.json")}}));
}

TEST(CentralDogmaSourceTest, AFileNamedInFullIsADocumentWhateverItsEnding) {
  const std::string entries = R"([{"path":"/a/subs","type":"TEXT","content":"a: 1\n"},
      {"path":"/a/readme","type":"TEXT","content":"read me"}])";
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({kRevision2, AnswerWith(200, entries)})}});
  SourceFollower follower = FollowDogma(endpoint.url(""), "/a/*.yaml,/a/subs");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a/subs", "a: 1\n")));
}

TEST(CentralDogmaSourceTest, ReadsWhatTheRealServerSends) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn(
      {AnswerWith(200, Golden("central_dogma/revision.json")), AnswerWith(200, Golden("central_dogma/entries.json")),
       AnswerWith(200, Golden("central_dogma/watch.json")), AnswerWith(200, Golden("central_dogma/entries.json")),
       AnswerWith(404, Golden("central_dogma/revision_not_found.json")),
       AnswerWith(200, Golden("central_dogma/revision.json")), Answer(204),
       AnswerWith(500, Golden("central_dogma/shutting_down.json"))})}});
  SourceFollower follower = FollowDogma(endpoint.url(""));
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a.json", "{\n  \"instances\": 1\n}\n"),
                                                Pair("/s/b.yaml", "# a comment\nsubscriptions: []\n")));
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  const Failed failed = follower.NextFailure();
  EXPECT_THAT(failed.why, HasSubstr("500 ShuttingDownException"));
  EXPECT_TRUE(failed.retryable);
  EXPECT_EQ(endpoint.requests().size(), 8u);
}

TEST(CentralDogmaSourceTest, RefusalsAreToldAsTheyAre) {
  struct Case {
    std::string answer;
    std::string why;
    bool retryable;
  };
  const std::string exception = R"({"exception":"com.linecorp.centraldogma.common.)";
  const std::vector<Case> cases{
      {AnswerWith(401, "Unauthorized"), "401: the token is not accepted", false},
      {AnswerWith(403, R"({"message":"You must have READ permission for repository 'delivery/cfg'."})"),
       "403: You must have READ permission for repository 'delivery/cfg'.", false},
      {AnswerWith(404, exception + R"(ProjectNotFoundException","message":"delivery"})"),
       "404 ProjectNotFoundException: delivery", true},
      {AnswerWith(500, exception + R"(ShuttingDownException"})"), "500 ShuttingDownException", true},
      {AnswerWith(503, "a\nlong story"), "503", true},
      {AnswerWith(200, "<html>"), "the answer to a question for the revision is not Central Dogma's", true},
      {AnswerWith(200, "{\"revision\":\"x\"}"), "the answer to a question for the revision is not Central Dogma's",
       true}};
  for (const Case& one : cases) {
    ScriptedEndpoint endpoint({{ScriptedEndpoint::Serve(one.answer)}});
    const Failed failed = FollowDogma(endpoint.url("")).NextFailure();
    EXPECT_EQ(failed.why, one.why);
    EXPECT_EQ(failed.retryable, one.retryable) << one.why;
  }
  for (const char* entries : {"[", "7", "[7]", R"([{"type":"TEXT"}])", R"([{"path":"/a.yaml","type":"TEXT"}])"}) {
    ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({kRevision2, AnswerWith(200, entries)})}});
    EXPECT_EQ(FollowDogma(endpoint.url("")).NextFailure().why,
              "the entries of revision 2 are not as Central Dogma sends them");
  }
}

TEST(CentralDogmaSourceTest, ACommitThatChangesNoDocumentIsNoNews) {
  const std::string same = AnswerWith(200, R"([{"path":"/a.yaml","type":"TEXT","content":"a"}])");
  ScriptedEndpoint endpoint(
      {{ScriptedEndpoint::ServeInTurn({kRevision2, same, AnswerWith(200, "{\"revision\":4}"), same})}});
  SourceFollower follower = FollowDogma(endpoint.url(""));
  follower.NextFiles();
  std::stop_source stop;
  auto next = std::async(std::launch::async, [&] { return follower.Next(std::chrono::hours(1), stop.get_token()); });
  ASSERT_TRUE(endpoint.AwaitRequests(5));
  EXPECT_EQ(endpoint.requests()[4].header("if-none-match"), "4");
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
}

TEST(CentralDogmaSourceTest, TheTokenIsReadForEveryRequest) {
  FakeCentralDogma dogma;
  dogma.Commit({{"/a.yaml", "1"}});
  dogma.Require("appToken-old");
  std::mutex mutex;
  std::string token = "appToken-wrong\n";
  const Environment environment{[](const std::string&) { return std::nullopt; },
                                [&](const std::string& path, std::string* why) -> std::optional<std::string> {
                                  const std::lock_guard lock(mutex);
                                  if (path == "/run/token" && !token.empty()) return token;
                                  *why = "No such file or directory";
                                  return std::nullopt;
                                }};
  const auto put = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    token = text;
  };
  CentralDogmaSettings settings = DogmaAt(dogma.url());
  settings.token.file = "/run/token";
  SourceFollower follower(std::make_unique<CentralDogmaSource>(settings, environment));
  const Failed wrong = follower.NextFailure();
  EXPECT_EQ(wrong.why, "401: the token is not accepted");
  EXPECT_FALSE(wrong.retryable);
  put("appToken-old\n");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a.yaml", "1")));
  dogma.Require("appToken-new");
  dogma.Commit({{"/a.yaml", "2"}});
  EXPECT_EQ(follower.NextFailure().why, "401: the token is not accepted");
  put("");
  EXPECT_EQ(follower.NextFailure().why, "token: /run/token: No such file or directory");
  put("appToken-new");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a.yaml", "2")));
}

TEST(CentralDogmaSourceTest, AStopEndsEveryWait) {
  for (std::size_t answered = 0; answered <= 2; ++answered) {
    std::vector<std::string> first{kRevision2, Answer(204)};
    first.resize(answered);
    ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn(first)}});
    CentralDogmaSource source(DogmaAt(endpoint.url("")));
    std::string have;
    if (answered == 2) {
      Outcome outcome = source.Next("", std::chrono::hours(1), {});
      have = std::get<Changed>(outcome).snapshot.revision;
    }
    std::stop_source stop;
    auto next =
        std::async(std::launch::async, [&] { return source.Next(have, std::chrono::hours(1), stop.get_token()); });
    ASSERT_TRUE(endpoint.AwaitRequests(answered + 1));
    stop.request_stop();
    EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
  }
}

TEST(CentralDogmaSourceTest, SpeaksTls) {
  const test::TestCertificates certificates;
  ScriptedEndpoint endpoint({{ScriptedEndpoint::Serve([](const SeenRequest& request) {
                              return request.line.find("/revision/") != std::string::npos ? kRevision2 : Answer(204);
                            })}},
                            {certificates.server(), certificates.key(), ""});
  EXPECT_EQ(FollowDogma(endpoint.url("")).NextFailure().why, "TLS: certificate not trusted");
  CentralDogmaSettings settings = DogmaAt(endpoint.url(""));
  settings.ca = certificates.ca();
  EXPECT_THAT(SourceFollower(std::make_unique<CentralDogmaSource>(settings)).NextFiles(), IsEmpty());
}

TEST(CentralDogmaSourceTest, NeverShowsItsToken) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::Serve(AnswerWith(401, "appToken-hunter2 is wrong"))}});
  CentralDogmaSettings settings = DogmaAt(endpoint.url(""));
  settings.token.value = "appToken-hunter2";
  CentralDogmaSource source(settings);
  const Outcome outcome = source.Next("", std::chrono::hours(1), {});
  EXPECT_THAT(std::get<Failed>(outcome).why, Not(HasSubstr("hunter2")));
  EXPECT_THAT(source.Describe(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(source.Describe(), HasSubstr("delivery/cfg/**"));
}

// Commits, resets and refusals in any order: no reading mixes two commits, and the last commit is always found.
TEST(CentralDogmaSourceTest, RandomHistoriesEndAtTheLastCommit) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    FakeCentralDogma dogma;
    dogma.Commit({{"/a.yaml", "first"}, {"/b.yaml", "first"}});
    SourceFollower follower = FollowDogma(dogma.url());
    std::atomic<bool> over = false;
    auto following = std::async(std::launch::async, [&] {
      const Files last{{"/a.yaml", "last"}, {"/b.yaml", "last"}};
      while (follower.files() != last) {
        follower.Next();
        const Files& files = follower.files();
        if (files.size() == 2) {
          EXPECT_EQ(files.at("/a.yaml"), files.at("/b.yaml"));
        }
      }
      over = true;
    });
    for (int step = 0; step < 20; ++step) {
      const std::string text = std::to_string(random() % 5);
      switch (random() % 6) {
        case 0:
          dogma.Reset({{"/a.yaml", text}, {"/b.yaml", text}});
          break;
        case 1:
          dogma.AnswerAll(Answer(500));
          dogma.Commit({});
          dogma.AnswerAll("");
          break;
        case 2:
          dogma.Require(random() % 2 == 0 ? "another" : "anonymous");
          break;
        default:
          dogma.Commit({{"/a.yaml", text}, {"/b.yaml", text}, {"/c.md", std::to_string(step)}});
      }
      if (random() % 3 == 0) std::this_thread::yield();
    }
    dogma.Require("anonymous");
    dogma.Commit({{"/a.yaml", "last"}, {"/b.yaml", "last"}});
    following.get();
    EXPECT_TRUE(over);
  }
}

}  // namespace
}  // namespace posthorn::config
