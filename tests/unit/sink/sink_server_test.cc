#include "worker/cli/sink_server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/sink/raw_client.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;
using test::Post;
using test::RawClient;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SinkServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "posthorn-sink-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Start(SinkOptions options = {}) {
    sink_ = std::make_unique<SinkServer>(std::move(options));
    std::string why;
    ASSERT_TRUE(sink_->Start(&why)) << why;
  }

  std::vector<json::object> Log() const {
    std::ifstream file(folder_ / "log");
    std::vector<json::object> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line).as_object());
    return lines;
  }

  std::filesystem::path folder_;
  std::unique_ptr<SinkServer> sink_;
};

TEST_F(SinkServerTest, AnswersAndCounts) {
  Start();
  RawClient client(sink_->port());
  EXPECT_EQ(client.Ask(Post("/a", "hello")), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  EXPECT_THAT(client.Ask("GET /b HTTP/1.1\r\nhost: x\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  const auto counts = sink_->counts();
  EXPECT_EQ(counts.requests, 2u);
  EXPECT_EQ(counts.failed, 0u);
  std::uint64_t sum = 0;
  for (const auto& [label, second] : counts.seconds) {
    sum += second.requests;
    EXPECT_EQ(sink_->CountsAt(label), second);
  }
  EXPECT_EQ(sum, 2u);
}

TEST_F(SinkServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Start();
  RawClient client(sink_->port());
  client.Send(Post("/1", "a") + Post("/_sink/set", R"({"status":202})") + Post("/2", "b") +
              Post("/_sink/set", R"({"status":204})") + Post("/3", std::string(1u << 20, 'c')) + Post("/4", ""));
  EXPECT_THAT(client.Receive(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.Receive(), HasSubstr(R"("status":202)"));
  EXPECT_THAT(client.Receive(), StartsWith("HTTP/1.1 202"));
  EXPECT_THAT(client.Receive(), HasSubstr(R"("status":204)"));
  EXPECT_EQ(client.Receive(), "HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(client.Receive(), "HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(sink_->counts().requests, 4u) << "what controls the sink does not count";
}

TEST_F(SinkServerTest, FailsWithRetryAfterAsTold) {
  SinkOptions options;
  options.behaviour.fail = 1;
  options.behaviour.fail_status = 429;
  options.behaviour.retry_after = 7;
  Start(options);
  RawClient client(sink_->port());
  EXPECT_THAT(client.Ask(Post("/", "x")), testing::AllOf(StartsWith("HTTP/1.1 429"), HasSubstr("retry-after: 7\r\n")));
  SinkBehaviour fine = sink_->behaviour();
  fine.fail = 0;
  sink_->Set(fine);
  EXPECT_THAT(client.Ask(Post("/", "x")), testing::AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("retry-after"))));
  EXPECT_EQ(sink_->counts().failed, 1u);
}

TEST_F(SinkServerTest, ResetsInTheMiddleOfABody) {
  SinkOptions options;
  options.behaviour.reset = 1;
  options.log = folder_ / "log";
  Start(options);
  RawClient client(sink_->port());
  // The head says that more is to come than comes.
  EXPECT_EQ(client.Ask(Post("/", "x")), "");
  EXPECT_FALSE(client.AtEnd());
  SinkBehaviour fine = sink_->behaviour();
  fine.reset = 0;
  sink_->Set(fine);
  RawClient other(sink_->port());
  EXPECT_THAT(other.Ask(Post("/", "x")), StartsWith("HTTP/1.1 200"));
  sink_->Stop();
  const auto lines = Log();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("status"), 200);
  EXPECT_EQ(lines[0].at("reset"), true);
  EXPECT_FALSE(lines[1].contains("reset"));
}

TEST_F(SinkServerTest, FailsAboutTheShareItWasTold) {
  SinkOptions options;
  options.behaviour.fail = 0.3;
  Start(options);
  RawClient client(sink_->port());
  for (int i = 0; i < 2000; ++i) client.Ask(Post("/", ""));
  EXPECT_GT(sink_->counts().failed, 450u);  // seven standard deviations
  EXPECT_LT(sink_->counts().failed, 750u);
}

TEST_F(SinkServerTest, CountsAreToldOverHttp) {
  Start();
  RawClient client(sink_->port());
  client.Ask(Post("/", "x"));
  const std::string answer = client.Ask("GET /_sink/counts HTTP/1.1\r\nhost: x\r\n\r\n");
  const json::object object = json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).as_object();
  EXPECT_EQ(object.at("requests").as_int64(), 1);
  EXPECT_EQ(object.at("largest_1s").as_int64(), 1);
  EXPECT_EQ(object.at("seconds").as_object().size(), 1u);
  EXPECT_THAT(client.Ask(Post("/_sink/set", "nonsense")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(client.Ask(Post("/_sink/other", "")), StartsWith("HTTP/1.1 404"));
}

TEST_F(SinkServerTest, LatencyHoldsTheAnswerBack) {
  SinkOptions options;
  options.behaviour.latency_min = options.behaviour.latency_max = std::chrono::milliseconds(50);
  Start(options);
  RawClient slow(sink_->port());
  RawClient other(sink_->port());
  const auto begin = std::chrono::steady_clock::now();
  slow.Send(Post("/", ""));
  EXPECT_THAT(other.Ask(Post("/", "")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(slow.Receive(), StartsWith("HTTP/1.1 200"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
}

TEST_F(SinkServerTest, LogsEachRequestAsOneObject) {
  SinkOptions options;
  options.log = (folder_ / "log").string();
  options.threads = 2;
  Start(options);
  RawClient client(sink_->port());
  client.Ask(Post("/hooks?a=\"1\"", "hello",
                  "webhook-id: orders-1-2\r\nposthorn-attempt: 3\r\nposthorn-subscription: billing\r\n"
                  "Content-Type: text/plain\r\nX-Tenant: a\\c\"me\r\n"));
  client.Ask(Post("/", ""));
  sink_->Stop();
  EXPECT_TRUE(client.AtEnd());
  const auto lines = Log();
  ASSERT_EQ(lines.size(), 2u);
  const json::object& first = lines[0];
  EXPECT_EQ(first.at("method").as_string(), "POST");
  EXPECT_EQ(first.at("path").as_string(), "/hooks?a=\"1\"");
  EXPECT_EQ(first.at("webhook_id").as_string(), "orders-1-2");
  EXPECT_EQ(first.at("attempt").as_int64(), 3);
  EXPECT_EQ(first.at("subscription").as_string(), "billing");
  EXPECT_EQ(first.at("status").as_int64(), 200);
  EXPECT_EQ(first.at("bytes").as_int64(), 5);
  EXPECT_EQ(first.at("headers").as_object().at("Content-Type").as_string(), "text/plain");
  EXPECT_EQ(first.at("headers").as_object().at("X-Tenant").as_string(), "a\\c\"me");
  EXPECT_NEAR(first.at("time").as_double(), static_cast<double>(first.at("time_ns").as_int64()) / 1e9, 0.002);
}

TEST_F(SinkServerTest, WhatAClientMayDo) {
  Start();
  RawClient chunked(sink_->port());
  EXPECT_THAT(chunked.Ask("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
  RawClient expecting(sink_->port());
  EXPECT_EQ(expecting.Ask("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"),
            "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(expecting.Ask("ab"), StartsWith("HTTP/1.1 200"));
  RawClient closing(sink_->port());
  EXPECT_THAT(closing.Ask(Post("/", "", "connection: close\r\n")), HasSubstr("connection: close"));
  EXPECT_TRUE(closing.AtEnd());
  RawClient wrong(sink_->port());
  EXPECT_THAT(wrong.Ask("what is this?\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_TRUE(wrong.AtEnd());
  EXPECT_EQ(sink_->counts().requests, 3u);
}

TEST_F(SinkServerTest, SaysWhyItCannotListenOrLog) {
  Start();
  std::string why;
  SinkOptions taken;
  taken.listen = sink_->address();
  EXPECT_FALSE(SinkServer(taken).Start(&why));
  EXPECT_THAT(why, HasSubstr(taken.listen));
  SinkOptions no_port;
  no_port.listen = "localhost";
  EXPECT_FALSE(SinkServer(no_port).Start(&why));
  SinkOptions no_folder;
  no_folder.log = (folder_ / "missing" / "log").string();
  EXPECT_FALSE(SinkServer(no_folder).Start(&why));
  EXPECT_THAT(why, HasSubstr("log"));
}

TEST_F(SinkServerTest, StartsAgainAfterStop) {
  Start();
  sink_->Stop();
  sink_->Stop();
  std::string why;
  ASSERT_TRUE(sink_->Start(&why)) << why;
  RawClient client(sink_->port());
  EXPECT_THAT(client.Ask(Post("/", "")), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace posthorn::cli
