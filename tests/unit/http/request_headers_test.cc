#include "worker/http/request_headers.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace posthorn::http {
namespace {

using delivery::HeaderView;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class RequestHeadersTest : public ::testing::Test {
 protected:
  std::vector<std::string> Lines(const std::vector<HeaderView>& record_headers,
                                 std::optional<std::string_view> value = "body") {
    delivery::Record::Parts parts;
    parts.offset = 42;
    parts.value = value;
    parts.headers = &record_headers;
    const delivery::TopicPartition partition{"orders.v1", 11};
    delivery::Message message;
    message.record = delivery::Record::Copy(parts);
    message.partition = &partition;
    message.attempt_number = 3;
    message.now = runtime::WallTime(std::chrono::milliseconds(1'700'000'000'999));
    const RequestHeaders headers(subscription_, "posthorn/test");
    HeaderLines lines;
    headers.AppendTo(message, lines);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < lines.size(); ++i) out.emplace_back(lines.line(i));
    return out;
  }
  std::vector<std::string> Fixed() {
    const RequestHeaders headers(subscription_, "posthorn/test");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < headers.fixed().size(); ++i) out.emplace_back(headers.fixed().line(i));
    return out;
  }

  config::Subscription subscription_ = [] {
    config::Subscription s;
    s.name = "billing";
    return s;
  }();
};

TEST_F(RequestHeadersTest, PlainRecord) {
  EXPECT_THAT(Lines({}), ElementsAre("content-type: application/octet-stream", "webhook-id: orders.v1-11-42",
                                     "webhook-timestamp: 1700000000", "posthorn-attempt: 3"));
  EXPECT_THAT(Fixed(), ElementsAre("user-agent: posthorn/test", "posthorn-subscription: billing"));
}

TEST_F(RequestHeadersTest, NullValueIsMarked) {
  EXPECT_THAT(Lines({}, std::nullopt), Contains("posthorn-null: true"));
  EXPECT_THAT(Lines({}, ""), Not(Contains("posthorn-null: true")));
}

TEST_F(RequestHeadersTest, ContentTypeOfTheRecordThenOfTheConfigurationThenTheDefault) {
  subscription_.headers = {{"Content-Type", "application/json"}};
  EXPECT_THAT(Lines({}), Contains("content-type: application/json"));
  EXPECT_THAT(Lines({{"Content-Type", "text/plain"}}), Contains("content-type: text/plain"));
  EXPECT_THAT(Lines({{"content-type", "a\nb"}}), Contains("content-type: application/json"));
  EXPECT_THAT(Lines({{"content-type", std::nullopt}}), Contains("content-type: application/json"));
  EXPECT_THAT(Lines({{"content-type", "first"}, {"content-type", "last"}}), Contains("content-type: last"));
}

TEST_F(RequestHeadersTest, MessageIdOfTheRecordWhenItIsOne) {
  EXPECT_THAT(Lines({{"webhook-id", "msg_1"}}), Contains("webhook-id: msg_1"));
  const std::string longest(256, 'x');
  EXPECT_THAT(Lines({{"webhook-id", longest}}), Contains("webhook-id: " + longest));
  const std::string too_long(257, 'x');
  for (const std::string& bad :
       {std::string(), too_long, std::string("a b"), std::string("a\r\nb"), std::string("\xc3\xa4")}) {
    EXPECT_THAT(Lines({{"webhook-id", bad}}), Contains("webhook-id: orders.v1-11-42")) << bad;
  }
}

TEST_F(RequestHeadersTest, TraceparentIsPassedOnAlways) {
  EXPECT_THAT(Lines({{"traceparent", "00-ab-cd-01"}}), Contains("traceparent: 00-ab-cd-01"));
  subscription_.forward_headers = {"*"};
  const auto lines = Lines({{"traceparent", "00-ab-cd-01"}, {"tracestate", "x=1"}});
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "traceparent: 00-ab-cd-01"), 1);
  EXPECT_THAT(lines, Contains("tracestate: x=1"));
}

TEST_F(RequestHeadersTest, ForwardsWholeNamesAndPrefixesWithoutRegardToCase) {
  subscription_.forward_headers = {"trace-*", "X-Request-Id"};
  const auto lines =
      Lines({{"Trace-A", "1"}, {"trace-", "2"}, {"x-request-id", "3"}, {"x-request-id2", "4"}, {"tracer", "5"}});
  EXPECT_THAT(lines, testing::IsSupersetOf({"Trace-A: 1", "trace-: 2", "x-request-id: 3"}));
  EXPECT_EQ(lines.size(), 4u + 3u);
}

TEST_F(RequestHeadersTest, RepeatedForwardedHeadersStayInOrder) {
  subscription_.forward_headers = {"x-tag"};
  const auto lines = Lines({{"x-tag", "b"}, {"x-tag", "a"}});
  EXPECT_THAT(std::vector<std::string>(lines.end() - 2, lines.end()), ElementsAre("x-tag: b", "x-tag: a"));
}

TEST_F(RequestHeadersTest, NothingOverridesOrFramesOrInjects) {
  subscription_.forward_headers = {"*"};
  subscription_.headers = {{"x-fixed", "1"}, {"authorization", "Bearer s"}};
  const auto plain = Lines({});
  const std::vector<HeaderView> hostile{{"x-fixed", "2"},
                                        {"Authorization", "Bearer t"},
                                        {"posthorn-attempt", "9"},
                                        {"Posthorn-Other", "9"},
                                        {"webhook-signature", "9"},
                                        {"Host", "h"},
                                        {"Content-Length", "9"},
                                        {"Transfer-Encoding", "x"},
                                        {"Connection", "close"},
                                        {"keep-alive", "x"},
                                        {"TE", "x"},
                                        {"Upgrade", "x"},
                                        {"Expect", "x"},
                                        {"Trailer", "x"},
                                        {"user-agent", "x"},
                                        {"bad name", "x"},
                                        {"", "x"},
                                        {"bad:name", "x"},
                                        {"n\xc3\xa4me", "x"},
                                        {"x-nl", "a\nb"},
                                        {"x-cr", "a\rb"},
                                        {"x-nul", std::string_view("a\0b", 3)},
                                        {"x-del", "a\x7f"},
                                        {"x-null", std::nullopt}};
  EXPECT_EQ(Lines(hostile), plain);
}

TEST_F(RequestHeadersTest, FixedHeadersMayNameTheAgentButNothingReserved) {
  subscription_.headers = {{"User-Agent", "mine"},    {"x-tenant", " acme "}, {"host", "h"},  {"webhook-id", "1"},
                           {"posthorn-attempt", "1"}, {"x-bad", "a\r\nb"},    {"x-empty", ""}};
  EXPECT_THAT(Fixed(), ElementsAre("User-Agent: mine", "x-tenant: acme", "x-empty;", "posthorn-subscription: billing"));
}

TEST_F(RequestHeadersTest, ForwardedBytesAreBounded) {
  subscription_.forward_headers = {"*"};
  const std::string half(RequestHeaders::kMaxForwardedBytes / 2 - 10, 'x');
  const auto lines = Lines({{"x-1", half}, {"x-2", half}, {"x-3", half}, {"x-4", "small"}});
  EXPECT_EQ(lines.size(), 4u + 2u);
}

TEST_F(RequestHeadersTest, AllBytesButControlsAreKept) {
  subscription_.forward_headers = {"*"};
  EXPECT_THAT(Lines({{"x-utf8", "gr\xc3\xbc\xc3\x9f\te"}}), Contains("x-utf8: gr\xc3\xbc\xc3\x9f\te"));
}

TEST(HeaderLinesTest, LinesAreEndedAndReused) {
  HeaderLines lines;
  lines.Append("a", "1");
  lines.Append("b", std::int64_t{-5});
  lines.Append("c", "");
  lines.Append("d", {"x", "-", "y"});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_STREQ(lines.line(0), "a: 1");
  EXPECT_STREQ(lines.line(1), "b: -5");
  EXPECT_STREQ(lines.line(2), "c;");
  EXPECT_STREQ(lines.line(3), "d: x-y");
  lines.Clear();
  EXPECT_EQ(lines.size(), 0u);
}

}  // namespace
}  // namespace posthorn::http
