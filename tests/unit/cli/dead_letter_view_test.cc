#include "worker/cli/dead_letter_view.h"

#include <gmock/gmock.h>

#include "config/rfc3339.h"

namespace posthorn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kWritten = "2026-11-21T08:15:30.042Z";

std::int64_t Ms(const char* time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(config::ParseRfc3339(time)->time_since_epoch()).count();
}

FoundLetter Letter(std::optional<std::string_view> value = "{\"number\":1}", const char* error = "") {
  delivery::DeadLetter letter;
  const std::vector<delivery::HeaderView> own{{"webhook-id", "order-7"}, {"binary", "\xff\x01"}};
  delivery::Record::Parts parts;
  parts.offset = 41;
  parts.headers = &own;
  letter.record = delivery::Record::Copy(parts);
  letter.partition = {"orders", 7};
  letter.subscription = "billing";
  letter.attempts = 3;
  letter.last_status = *error == '\0' ? 503 : 0;
  letter.last_error = error;
  const auto headers = kafka::DeadLetterHeaders(letter);
  std::vector<delivery::HeaderView> views;
  for (const auto& [name, text] : headers) views.push_back({name, *text});
  delivery::Record::Parts written;
  written.offset = 1500;
  written.timestamp_ms = Ms(kWritten);
  written.key = "k";
  written.value = value;
  written.headers = &views;
  return {3, delivery::Record::Copy(written)};
}

FoundLetter Foreign() {
  const std::vector<delivery::HeaderView> none;
  delivery::Record::Parts parts;
  parts.offset = 9;
  parts.value = "\x1b[2Jhello";
  parts.headers = &none;
  return {0, delivery::Record::Copy(parts)};
}

TEST(DeadLetterViewTest, OneLineSaysWhatItIs) {
  EXPECT_EQ(ToLine(Letter()),
            "3:1500  2026-11-21T08:15:30.042Z  billing  expired  orders/7@41  3 attempts, status 503");
  EXPECT_EQ(ToLine(Foreign()),
            "0:9  1970-01-01T00:00:00.000Z  no dead letter of Posthorn's: posthorn-reason is missing");
}

TEST(DeadLetterViewTest, NothingReachesTheTerminalAsItIs) {
  for (const auto& text : {ToText(Foreign()), ToLine(Letter("v", "\x1b[31mred\nline")), ToText(Letter("\xff\n"))}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(ToText(Letter("\xff\n")), HasSubstr("2 bytes: (hex) ff0a"));
  EXPECT_THAT(ToLine(Letter("v", "a\nb")), HasSubstr("a?b"));
}

TEST(DeadLetterViewTest, JsonIsOneObjectPerLine) {
  EXPECT_EQ(ToJson(Letter(), false),
            R"({"at":"3:1500","written":"2026-11-21T08:15:30.042Z","subscription":"billing","reason":"expired",)"
            R"("topic":"orders","partition":7,"offset":41,"attempts":3,"last_status":503,"bytes":12})");
  const auto whole = ToJson(Letter("a\nb"), true);
  EXPECT_THAT(whole, HasSubstr(R"({"name":"webhook-id","value":"order-7"},{"name":"binary","value_hex":"ff01"}])"));
  EXPECT_THAT(whole, HasSubstr(R"("key":"k","value":"a\nb")"));
  EXPECT_THAT(whole, Not(HasSubstr("\n")));
  EXPECT_THAT(ToJson(Letter(std::nullopt), true), HasSubstr(R"("value":null)"));
  EXPECT_THAT(ToJson(Letter("\xc0\x80"), true), HasSubstr(R"("value_hex":"c080")")) << "longer than needed";
  EXPECT_THAT(ToJson(Letter("\xed\xa0\x80"), true), HasSubstr("value_hex")) << "a surrogate";
  EXPECT_THAT(ToJson(Letter("\xf0\x9f\x93\xaf"), true), HasSubstr("\"value\":\"\xf0\x9f\x93\xaf\""));
  EXPECT_THAT(ToJson(Foreign(), false), HasSubstr(R"("problem":"posthorn-reason is missing")"));
}

TEST(LetterFilterTest, EachConditionCounts) {
  const auto letter = Letter();
  const auto written = *config::ParseRfc3339(kWritten);
  LetterFilter filter;
  EXPECT_TRUE(filter.Matches(letter));
  EXPECT_TRUE(filter.Matches(Foreign()));
  filter.subscription = "billing";
  EXPECT_TRUE(filter.Matches(letter));
  EXPECT_FALSE(filter.Matches(Foreign()));
  filter.subscription = "other";
  EXPECT_FALSE(filter.Matches(letter));
  filter = {};
  filter.reason = delivery::DeadLetterReason::kExpired;
  EXPECT_TRUE(filter.Matches(letter));
  filter.reason = delivery::DeadLetterReason::kGone;
  EXPECT_FALSE(filter.Matches(letter));
  filter = {};
  filter.since = written;
  EXPECT_TRUE(filter.Matches(letter));
  filter.until = written;
  EXPECT_FALSE(filter.Matches(letter));
  filter = {};
  filter.places = {{3, 1500}, {4, 1}};
  EXPECT_TRUE(filter.Matches(letter));
  filter.places = {{3, 1501}, {2, 1500}};
  EXPECT_FALSE(filter.Matches(letter));
}

}  // namespace
}  // namespace posthorn::cli
