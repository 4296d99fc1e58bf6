// The sources against a real Central Dogma and a real etcd, which tests/system/config_room.sh has started: empty ones,
// whose addresses are in POSTHORN_TEST_CENTRAL_DOGMA and POSTHORN_TEST_ETCD, and whose names for scripts/config-servers
// in POSTHORN_TEST_CENTRAL_DOGMA_ID and POSTHORN_TEST_ETCD_ID.

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "config/sources/base64.h"
#include "config/sources/central_dogma_source.h"
#include "config/sources/config_watch.h"
#include "config/sources/etcd_source.h"
#include "config/sources/http_client.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/config/source_follower.h"

namespace posthorn::config {
namespace {

namespace json = boost::json;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Files = SourceFollower::Files;
using std::chrono::seconds;

std::string Address(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "http://127.0.0.1:1" : value;
}

std::string Post(const std::string& url, const json::object& body, const std::string& authorization = {},
                 const Tls& tls = {}) {
  HttpRequest request;
  request.method = "POST";
  request.url = url;
  request.headers = {{"content-type", "application/json"}};
  if (!authorization.empty()) request.headers.emplace_back("authorization", authorization);
  request.body = json::serialize(body);
  request.answer_within = request.whole_within = seconds(60);
  HttpOutcome outcome = HttpClient(tls).Do(request, {});
  const auto* failure = std::get_if<HttpFailure>(&outcome);
  EXPECT_EQ(failure, nullptr) << url << ": " << failure->why;
  if (failure != nullptr) return {};
  const auto& answer = std::get<HttpAnswer>(outcome);
  EXPECT_LT(answer.status, 300) << url << ": " << answer.body;
  return answer.body;
}

/// What scripts/config-servers says.
std::string ConfigServers(const std::string& command) {
  std::string out;
  std::FILE* pipe = popen((POSTHORN_SOURCE_DIR "/scripts/config-servers " + command).c_str(), "r");
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) out += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

/// A server of this test's own, that is, with TLS.
class OwnServer {
 public:
  OwnServer(const std::string& kind, const std::string& tls) : id_(kind + "-tls-" + std::to_string(getpid())) {
    const std::string said = ConfigServers("start " + kind + " --json --id " + id_ + " --tls " + tls);
    url_ = said.empty() ? "" : json::parse(said).at("url").as_string().c_str();
  }
  ~OwnServer() { ConfigServers("stop --delete --id " + id_); }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::string id_;
  std::string url_;
};

/// The server of the tests hangs (SIGSTOP) as long as this lives.
class Paused {
 public:
  explicit Paused(const char* variable) : id_(std::getenv(variable)) { ConfigServers("pause --id " + id_); }
  ~Paused() { ConfigServers("resume --id " + id_); }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

 private:
  const std::string id_;
};

// Servers tell nobody that a watch is open, nor that a question is on its way to them.
void LetItBegin() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

void ExpectSoon(const std::function<void()>& end) {
  const auto asked = std::chrono::steady_clock::now();
  end();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(100));
}

void ExpectAStopEnds(Source& source, const std::string& have) {
  std::stop_source stop;
  auto next = std::async(std::launch::async, [&] { return source.Next(have, seconds(60), stop.get_token()); });
  LetItBegin();
  ExpectSoon([&] {
    stop.request_stop();
    EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
  });
}

/// Its wait, and then, with the server stopped, its wait, its question and the watch above it.
void ExpectAStopEndsWhateverItDoes(const std::function<std::unique_ptr<Source>()>& make, const char* id_variable) {
  ASSERT_NE(std::getenv(id_variable), nullptr);
  const auto source = make();
  const Outcome first = source->Next("", seconds(60), {});
  ASSERT_TRUE(std::holds_alternative<Changed>(first));
  const std::string have = std::get<Changed>(first).snapshot.revision;
  ExpectAStopEnds(*source, have);
  const Paused paused(id_variable);
  ExpectAStopEnds(*source, have);
  ExpectAStopEnds(*source, "");
  ConfigWatch watch(make(), {});
  watch.Start();
  LetItBegin();
  ExpectSoon([&] { watch.Stop(); });
}

class RealCentralDogma : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { Prepare(Url(), {}); }
  static std::string Url() { return Address("POSTHORN_TEST_CENTRAL_DOGMA"); }
  static void Prepare(const std::string& url, const Tls& tls) {
    Post(url + "/api/v1/projects", {{"name", "delivery"}}, "Bearer anonymous", tls);
    Post(url + "/api/v1/projects/delivery/repos", {{"name", "cfg"}}, "Bearer anonymous", tls);
  }

  static json::object Text(const std::string& path, const std::string& text) {
    return {{"path", path}, {"type", "UPSERT_TEXT"}, {"content", text}};
  }
  static json::object Json(const std::string& path, json::value content) {
    return {{"path", path}, {"type", "UPSERT_JSON"}, {"content", std::move(content)}};
  }
  static json::object Removal(const std::string& path) { return {{"path", path}, {"type", "REMOVE"}}; }
  static void Commit(json::array changes, const std::string& url = Url(), const Tls& tls = {}) {
    Post(url + "/api/v1/projects/delivery/repos/cfg/contents?revision=-1",
         {{"commitMessage", {{"summary", "a test"}}}, {"changes", std::move(changes)}}, "Bearer anonymous", tls);
  }

  static CentralDogmaSettings Settings(const std::string& path) {
    return {.url = Url(), .project = "delivery", .repository = "cfg", .path = path, .token = {}, .ca = ""};
  }
  static SourceFollower Follow(const std::string& path) {
    return SourceFollower(std::make_unique<CentralDogmaSource>(Settings(path)));
  }
};

TEST_F(RealCentralDogma, FollowsCommits) {
  SourceFollower follower = Follow("/course/**");
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Commit(
      {Text("/course/a.yaml", "# 1\n"), Json("/course/deep/er/b.json", {{"http", 1.1}}), Text("/course/c.md", "x\n")});
  const Files both{{"/course/a.yaml", "# 1\n"}, {"/course/deep/er/b.json", "{\n  \"http\": 1.1\n}\n"}};
  EXPECT_EQ(follower.NextFiles(), both);
  Commit({Text("/course/a.yaml", "# 2\n")});
  Commit({Text("/course/a.yaml", "# 3\n")});
  follower.Await({{"/course/a.yaml", "# 3\n"}, {"/course/deep/er/b.json", "{\n  \"http\": 1.1\n}\n"}});
  Commit({Text("/elsewhere.yaml", "x\n")});
  Commit({Text("/course/a.yaml", "# 4\n")});
  Commit({Text("/course/a.yaml", "# 3\n")});
  Commit({Removal("/course/deep/er/b.json")});
  follower.Await({{"/course/a.yaml", "# 3\n"}});
  Commit({Removal("/course/a.yaml")});
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
}

TEST_F(RealCentralDogma, OneFileIsFollowedThroughItsRemoval) {
  Commit({Text("/one.yaml", "# 1\n"), Text("/one.yaml.yaml", "x\n")});
  SourceFollower follower = Follow("/one.yaml");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/one.yaml", "# 1\n")));
  Commit({Removal("/one.yaml")});
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Commit({Text("/one.yaml", "# 2\n")});
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/one.yaml", "# 2\n")));
}

TEST_F(RealCentralDogma, SeveralPatternsAreOneSource) {
  Commit({Text("/p/a.yaml", "# a\n"), Text("/q/b.yml", "# b\n"), Text("/q/deep/c.yml", "# c\n")});
  EXPECT_THAT(Follow("/p/**,/q/*.yml").NextFiles(), ElementsAre(Pair("/p/a.yaml", "# a\n"), Pair("/q/b.yml", "# b\n")));
}

TEST_F(RealCentralDogma, TakesAJsonTextForWhatItIs) {
  Commit({Json("/trap.json", "{oops")});
  EXPECT_THAT(Follow("/trap.json").NextFiles(), ElementsAre(Pair("/trap.json", "\"{oops\"\n")));
}

TEST_F(RealCentralDogma, LargeFilesAreRead) {
  std::string large;
  for (int i = 0; i < 20'000; ++i) large += "# " + std::string(46, 'x') + "\n";
  Commit({Text("/large.yaml", large)});
  EXPECT_THAT(Follow("/large.yaml").NextFiles(), ElementsAre(Pair("/large.yaml", large)));
}

TEST_F(RealCentralDogma, RefusalsAreTold) {
  CentralDogmaSettings settings = Settings("/**");
  settings.token.value = "appToken-wrong";
  const Failed wrong = SourceFollower(std::make_unique<CentralDogmaSource>(settings)).NextFailure();
  EXPECT_EQ(wrong.why, "401: the token is not accepted");
  EXPECT_FALSE(wrong.retryable);
  settings = Settings("/**");
  settings.project = "none";
  EXPECT_THAT(SourceFollower(std::make_unique<CentralDogmaSource>(settings)).NextFailure().why,
              HasSubstr("404 ProjectNotFoundException"));
}

TEST_F(RealCentralDogma, AStopEndsItsLongPollAndWhatIsNotAnswered) {
  ExpectAStopEndsWhateverItDoes([] { return std::make_unique<CentralDogmaSource>(Settings("/quiet/**")); },
                                "POSTHORN_TEST_CENTRAL_DOGMA_ID");
}

TEST_F(RealCentralDogma, SpeaksTls) {
  const test::TestCertificates certificates;
  const OwnServer server("central-dogma", certificates.server() + " " + certificates.key());
  const Tls tls{certificates.ca(), {}, {}, {}};
  Prepare(server.url(), tls);
  CentralDogmaSettings settings = Settings("/**");
  settings.url = server.url();
  EXPECT_EQ(SourceFollower(std::make_unique<CentralDogmaSource>(settings)).NextFailure().why,
            "TLS: certificate not trusted");
  settings.ca = certificates.ca();
  SourceFollower follower(std::make_unique<CentralDogmaSource>(settings));
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Commit({Text("/a.yaml", "# 1\n")}, server.url(), tls);
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("/a.yaml", "# 1\n")));
}

class RealEtcd : public ::testing::Test {
 protected:
  static std::string Url() { return Address("POSTHORN_TEST_ETCD"); }
  static void Put(const std::string& key, const std::string& value, const std::string& url = Url(),
                  const Tls& tls = {}) {
    Post(url + "/v3/kv/put", {{"key", EncodeBase64(key)}, {"value", EncodeBase64(value)}}, "", tls);
  }
  static void Remove(const std::string& key) { Post(Url() + "/v3/kv/deleterange", {{"key", EncodeBase64(key)}}); }
  static EtcdSettings Settings(const std::string& prefix) {
    return {.url = Url(), .prefix = prefix, .user = "", .password = {}, .ca = ""};
  }
  static SourceFollower Follow(const std::string& prefix) {
    return SourceFollower(std::make_unique<EtcdSource>(Settings(prefix)));
  }
};

TEST_F(RealEtcd, FollowsTransactions) {
  SourceFollower follower = Follow("/course/");
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Put("/course/a", "1");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
  Put("/course0", "beyond");
  Put("/course/a", "2");
  Put("/course/a", "3");
  follower.Await({{"a", "3"}});
  Post(Url() + "/v3/kv/txn",
       {{"success", json::array{{{"requestPut", {{"key", EncodeBase64("/course/b")}, {"value", EncodeBase64("4")}}}},
                                {{"requestDeleteRange", {{"key", EncodeBase64("/course/a")}}}}}}});
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("b", "4")));
  Remove("/course/b");
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
}

TEST_F(RealEtcd, ACompactionBetweenTwoWatchesLosesNothing) {
  Put("/compacted/a", "1");
  SourceFollower follower = Follow("/compacted/");
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
  Put("/compacted/a", "2");
  const std::string said = Post(Url() + "/v3/kv/range", {{"key", EncodeBase64("/compacted/a")}});
  Post(Url() + "/v3/kv/compaction", {{"revision", json::parse(said).at("header").at("revision")}});
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "2")));
}

TEST_F(RealEtcd, LargeValuesAreRead) {
  const std::string large(1'000'000, 'x');
  Put("/large/a", large);
  EXPECT_THAT(Follow("/large/").NextFiles(), ElementsAre(Pair("a", large)));
}

TEST_F(RealEtcd, AStopEndsItsWatchAndWhatIsNotAnswered) {
  ExpectAStopEndsWhateverItDoes([] { return std::make_unique<EtcdSource>(Settings("/quiet/")); },
                                "POSTHORN_TEST_ETCD_ID");
}

TEST_F(RealEtcd, SpeaksTls) {
  const test::TestCertificates certificates;
  const OwnServer server("etcd", certificates.server() + " " + certificates.key());
  const Tls tls{certificates.ca(), {}, {}, {}};
  EtcdSettings settings = Settings("/tls/");
  settings.url = server.url();
  EXPECT_EQ(SourceFollower(std::make_unique<EtcdSource>(settings)).NextFailure().why, "TLS: certificate not trusted");
  settings.ca = certificates.ca();
  SourceFollower follower(std::make_unique<EtcdSource>(settings));
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Put("/tls/a", "1", server.url(), tls);
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
}

TEST_F(RealEtcd, ShowsItsCertificateToAServerThatAsksForOne) {
  const test::TestCertificates certificates;
  const OwnServer server("etcd",
                         certificates.server() + " " + certificates.key() + " --client-ca " + certificates.ca());
  EtcdSettings settings = Settings("/tls/");
  settings.url = server.url();
  settings.ca = certificates.ca();
  // The request may be refused by the closed connection before the alert is read.
  EXPECT_THAT(SourceFollower(std::make_unique<EtcdSource>(settings)).NextFailure().why,
              AnyOf("TLS: client certificate missing or refused by the server", "connection closed before an answer"));
  settings.certificate = certificates.client();
  settings.key = certificates.key();
  SourceFollower follower(std::make_unique<EtcdSource>(settings));
  EXPECT_THAT(follower.NextFiles(), IsEmpty());
  Put("/tls/a", "1", server.url(), {certificates.ca(), certificates.client(), certificates.key(), {}});
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("a", "1")));
}

}  // namespace
}  // namespace posthorn::config
