#include "config/sources/etcd_source.h"

#include <gmock/gmock.h>

#include <future>
#include <mutex>
#include <random>

#include "config/sources/base64.h"
#include "tests/support/fake_etcd.h"
#include "tests/support/scripted_endpoint.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/config/golden_file.h"
#include "tests/unit/config/source_follower.h"

namespace posthorn::config {
namespace {

using test::AnswerWith;
using test::FakeEtcd;
using test::ScriptedEndpoint;
using test::SeenRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using Files = SourceFollower::Files;

constexpr std::chrono::hours kPatience{1};

EtcdSettings EtcdAt(const std::string& url) {
  return {.url = url, .prefix = "/p/", .user = "", .password = {}, .ca = ""};
}

SourceFollower FollowEtcd(const std::string& url) { return SourceFollower(std::make_unique<EtcdSource>(EtcdAt(url))); }

std::string Range(const std::string& text, int revision, const std::string& cluster = "7") {
  return AnswerWith(200, R"({"header":{"cluster_id":")" + cluster + R"(","revision":")" + std::to_string(revision) +
                             R"("},"kvs":[{"key":")" + EncodeBase64("/p/a") + R"(","value":")" + EncodeBase64(text) +
                             R"("}]})");
}

std::string Line(const std::string& what, int revision, const std::string& cluster = "7") {
  return R"({"result":{"header":{"cluster_id":")" + cluster + R"(","revision":")" + std::to_string(revision) + "\"}," +
         what + "}}\n";
}

const std::string kCreated = R"("created":true)";
const std::string kEvent = R"("events":[{"kv":{"key":"L3AvYQ=="}}])";

// The server goes on telling.
std::string Open(const std::string& lines) { return "HTTP/1.1 200 x\r\n\r\n" + lines; }

TEST(Base64Test, IsThatOfTheStandard) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
      {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {std::string("\0\xff\xfe", 3), "AP/+"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 50, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
  }
  for (const char* bad : {"Zg", "Z===", "Zg=a", "Z g=", "====", "Zm9\n"})
    EXPECT_EQ(DecodeBase64(bad), std::nullopt) << bad;
}

TEST(EtcdSourceTest, AsksAsTheServerWantsIt) {
  ScriptedEndpoint endpoint(
      {{ScriptedEndpoint::ServeInTurn({Range("1", 5), Open(Line(kCreated, 5) + Line(kEvent, 6)), Range("2", 6)})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
  EXPECT_EQ(follower.number(), "5");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "2")));
  EXPECT_EQ(follower.number(), "6");
  const auto seen = endpoint.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].line, "POST /v3/kv/range HTTP/1.1");
  EXPECT_EQ(seen[0].body, R"({"key":"L3Av","range_end":"L3Aw"})");
  EXPECT_EQ(seen[0].header("authorization"), "<none>");
  EXPECT_EQ(seen[1].line, "POST /v3/watch HTTP/1.1");
  EXPECT_EQ(seen[1].body, R"({"create_request":{"key":"L3Av","range_end":"L3Aw","start_revision":"6"}})");
  EXPECT_EQ(seen[2].line, "POST /v3/kv/range HTTP/1.1");
}

TEST(EtcdSourceTest, ReadsWhatTheRealServerSends) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn(
      {AnswerWith(200, Golden("etcd/range.json")), Open(Golden("etcd/watch_put.txt")),
       AnswerWith(200, Golden("etcd/range_empty.json")), Open(Golden("etcd/watch_compacted.txt")),
       AnswerWith(200, Golden("etcd/range.json")), AnswerWith(200, Golden("etcd/watch_unavailable.txt")),
       AnswerWith(200, Golden("etcd/range_empty.json")), AnswerWith(200, Golden("etcd/watch_closing.txt")),
       AnswerWith(200, Golden("etcd/range.json"))})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  const Files files{{"a.yaml", "# a comment\n"}, {"empty", ""}, {"z/b.json", "{\"instances\":1}"}};
  EXPECT_EQ(follower.NextFiles(), files);
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  EXPECT_EQ(follower.NextFiles(), files);
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  EXPECT_EQ(follower.NextFiles(), files);
}

TEST(EtcdSourceTest, AQuietWatchIsNoChange) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({Range("1", 5), Open(Line(kCreated, 5))})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  follower.NextFiles();
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(std::chrono::milliseconds(1))));
}

TEST(EtcdSourceTest, ReadsAgainWheneverTheWatchCannotTell) {
  const std::vector<std::string> words{
      Line(kCreated, 3),       // the store was restored: from revision 6 on nothing would be heard
      Line(kCreated, 9, "8"),  // another store, further than ours
      Line(R"("canceled":true,"compact_revision":"8")", 9),
      Line(kCreated, 5) + Line(R"("canceled":true,"cancel_reason":"etcdserver: no leader")", 5),
      "{\"error\":{\"code\":14,\"message\":\"etcdserver: server stopped\"}}\n",
      "not json\n",
      "{}\n",
      std::string((8u << 20) + 1, 'x')};
  for (const std::string& word : words) {
    ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({Range("1", 5), Open(word), Range("2", 2, "8")})}});
    SourceFollower follower = FollowEtcd(endpoint.url(""));
    follower.NextFiles();
    EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "2"))) << word.substr(0, 100);
    EXPECT_EQ(follower.number(), "2");
  }
}

TEST(EtcdSourceTest, AWatchThatNeverTellsIsAFailure) {
  const std::string refused = Line(R"("canceled":true,"cancel_reason":"etcdserver: permission denied")", 5);
  ScriptedEndpoint endpoint(
      {{ScriptedEndpoint::ServeInTurn({Range("1", 5), Open(refused), Range("1", 5), Open(refused)})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  follower.NextFiles();
  EXPECT_EQ(follower.NextFailure().why, "the watch was refused: etcdserver: permission denied");
}

TEST(EtcdSourceTest, ShowsItsCertificateToAServerThatAsksForOne) {
  const test::TestCertificates certificates;
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({Range("1", 5)})}},
                            {certificates.server(), certificates.key(), certificates.ca()});
  EtcdSettings settings = EtcdAt(endpoint.url(""));
  settings.ca = certificates.ca();
  settings.certificate = certificates.client();
  settings.key = certificates.key();
  SourceFollower follower(std::make_unique<EtcdSource>(settings));
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
}

TEST(EtcdSourceTest, AKeySetToWhatItWasIsNoNews) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn({Range("1", 5), Open(Line(kEvent, 6)), Range("1", 6)})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  follower.NextFiles();
  std::stop_source stop;
  auto next = std::async(std::launch::async, [&] { return follower.Next(kPatience, stop.get_token()); });
  ASSERT_TRUE(endpoint.AwaitRequests(4));
  EXPECT_THAT(endpoint.requests()[3].body, HasSubstr("\"start_revision\":\"7\""));
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
}

TEST(EtcdSourceTest, RefusalsAreToldAsTheyAre) {
  struct Case {
    std::string answer;
    std::string why;
    bool retryable;
  };
  const std::vector<Case> cases{
      {AnswerWith(400, R"({"error":"etcdserver: user name is empty","code":3})"), "400: etcdserver: user name is empty",
       false},
      {AnswerWith(403, R"({"error":"x","message":"etcdserver: permission denied","code":7})"),
       "403: etcdserver: permission denied", false},
      {AnswerWith(503, R"({"error":"etcdserver: no leader","code":14})"), "503: etcdserver: no leader", true},
      {AnswerWith(404, "404 page not found"), "404", true},
      {AnswerWith(200, "<html>"), "the answer to a range is not as etcd sends it", true},
      {AnswerWith(200, R"({"header":{"revision":"1"},"kvs":[{"key":"?"}]})"),
       "the answer to a range is not as etcd sends it", true}};
  for (const Case& one : cases) {
    ScriptedEndpoint endpoint({{ScriptedEndpoint::Serve(one.answer)}});
    const Failed failed = FollowEtcd(endpoint.url("")).NextFailure();
    EXPECT_EQ(failed.why, one.why);
    EXPECT_EQ(failed.retryable, one.retryable) << one.why;
  }
}

class EtcdLoginTest : public ::testing::Test {
 protected:
  EtcdLoginTest() { etcd_.Commit({{"/p/a", "1"}}); }

  SourceFollower Follow() { return FollowEtcd(etcd_.url()); }
  SourceFollower FollowEtcd(const std::string& url) {
    EtcdSettings settings = EtcdAt(url);
    settings.user = "posthorn";
    settings.password.file = "/run/password";
    return SourceFollower(std::make_unique<EtcdSource>(
        settings, Environment{[](const std::string&) { return std::nullopt; },
                              [this](const std::string&, std::string*) -> std::optional<std::string> {
                                const std::lock_guard lock(mutex_);
                                return password_;
                              }}));
  }
  void PutPassword(const std::string& text) {
    const std::lock_guard lock(mutex_);
    password_ = text;
  }

  FakeEtcd etcd_;
  std::mutex mutex_;
  std::string password_ = "hunter2-1\n";
};

TEST_F(EtcdLoginTest, LogsInAgainWhenItsTokenHasExpired) {
  etcd_.Require("hunter2-1");
  SourceFollower follower = Follow();
  follower.Await({{"a", "1"}});
  etcd_.Require("hunter2-1");  // forgets the tokens
  etcd_.Commit({{"/p/a", "2"}});
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "2")));
}

// A store that was wiped would let the old token wait for ever.
TEST_F(EtcdLoginTest, LogsInAnewWithAServerThatWasAway) {
  const std::string token = AnswerWith(200, R"({"token":"a.1"})");
  const std::string ended = "HTTP/1.1 200 x\r\ncontent-length: 1000\r\n\r\n" + Line(kCreated, 5);
  ScriptedEndpoint endpoint({{ScriptedEndpoint::Read(), ScriptedEndpoint::Send(token)},
                             {ScriptedEndpoint::Read(), ScriptedEndpoint::Send(Range("1", 5))},
                             {ScriptedEndpoint::Read(), ScriptedEndpoint::Send(ended)},
                             {ScriptedEndpoint::ServeInTurn({token, Range("2", 2, "8")})}});
  SourceFollower follower = FollowEtcd(endpoint.url(""));
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
  follower.NextFailure();
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "2")));
  std::vector<std::string> asked;
  for (const SeenRequest& seen : endpoint.requests()) asked.push_back(seen.line);
  const std::string login = "POST /v3/auth/authenticate HTTP/1.1";
  const std::string range = "POST /v3/kv/range HTTP/1.1";
  EXPECT_THAT(asked, ElementsAre(login, range, "POST /v3/watch HTTP/1.1", login, range));
}

TEST_F(EtcdLoginTest, AWrongPasswordIsToldAndTheRightOneTaken) {
  etcd_.Require("hunter2-2");
  SourceFollower follower = Follow();
  const Failed failed = follower.NextFailure();
  EXPECT_EQ(failed.why, "login of posthorn: 400: etcdserver: authentication failed, invalid user ID or password");
  EXPECT_FALSE(failed.retryable);
  PutPassword("hunter2-2");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
}

TEST_F(EtcdLoginTest, AServerThatKnowsNoUsersNeedsNoLogin) {
  SourceFollower follower = Follow();
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
}

TEST(EtcdSourceTest, AStopEndsEveryWait) {
  const std::vector<std::vector<std::string>> begins{{}, {Range("1", 5)}, {Range("1", 5), Open(Line(kCreated, 5))}};
  for (const auto& begin : begins) {
    ScriptedEndpoint endpoint({{ScriptedEndpoint::ServeInTurn(begin)}});
    EtcdSource source(EtcdAt(endpoint.url("")));
    std::string have;
    if (!begin.empty()) {
      Outcome outcome = source.Next("", kPatience, {});
      have = std::get<Changed>(outcome).snapshot.revision;
    }
    std::stop_source stop;
    auto next = std::async(std::launch::async, [&] { return source.Next(have, kPatience, stop.get_token()); });
    ASSERT_TRUE(endpoint.AwaitRequests(have.empty() ? 1 : 2));
    stop.request_stop();
    EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
  }
}

TEST(EtcdSourceTest, NeverShowsItsPassword) {
  ScriptedEndpoint endpoint({{ScriptedEndpoint::Serve(AnswerWith(400, "hunter2"))}});
  EtcdSettings settings = EtcdAt(endpoint.url(""));
  settings.user = "posthorn";
  settings.password.value = "hunter2";
  EtcdSource source(settings);
  const Outcome outcome = source.Next("", kPatience, {});
  EXPECT_EQ(std::get<Failed>(outcome).why, "login of posthorn: 400");
  EXPECT_THAT(source.Describe(), Not(HasSubstr("hunter2")));
}

// Transactions, compactions, restored stores and forgotten tokens in any order: no reading mixes two transactions, and
// the last one is always found.
TEST(EtcdSourceTest, RandomHistoriesEndAtTheLastTransaction) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    FakeEtcd etcd;
    etcd.Commit({{"/p/a", "first"}, {"/p/b", "first"}});
    EtcdSettings settings = EtcdAt(etcd.url());
    settings.user = "posthorn";
    settings.password.value = "hunter2";
    SourceFollower follower(std::make_unique<EtcdSource>(settings));
    auto following = std::async(std::launch::async, [&] {
      const Files last{{"a", "last"}, {"b", "last"}};
      while (follower.files() != last) {
        follower.Next();
        const Files& files = follower.files();
        if (files.size() == 2) {
          EXPECT_EQ(files.at("a"), files.at("b"));
        }
      }
    });
    for (int step = 0; step < 20; ++step) {
      const std::string text = std::to_string(random() % 5);
      switch (random() % 6) {
        case 0:
          etcd.Restore({{"/p/a", text}, {"/p/b", text}});
          break;
        case 1:
          etcd.Compact();
          break;
        case 2:
          etcd.Require("hunter2");
          break;
        default:
          etcd.Commit({{"/p/a", text}, {"/p/b", text}});
      }
      if (random() % 3 == 0) std::this_thread::yield();
    }
    etcd.Commit({{"/p/a", "last"}, {"/p/b", "last"}});
    following.get();
  }
}

}  // namespace
}  // namespace posthorn::config
