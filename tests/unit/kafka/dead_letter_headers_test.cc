#include "worker/kafka/dead_letter_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn::kafka {
namespace {

using testing::ElementsAre;
using testing::Pair;
using namespace std::chrono_literals;

runtime::WallTime At(std::chrono::milliseconds since_1970) { return runtime::WallTime(since_1970); }

delivery::DeadLetter Letter(const std::vector<delivery::HeaderView>& headers) {
  delivery::Record::Parts parts;
  parts.offset = 41;
  parts.key = "k";
  parts.value = "v";
  parts.headers = &headers;
  delivery::DeadLetter letter;
  letter.record = delivery::Record::Copy(parts);
  letter.partition = {"orders", 7};
  letter.subscription = "billing";
  return letter;
}

TEST(FormatTime, Rfc3339WithMilliseconds) {
  EXPECT_EQ(FormatTime(At(0ms)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatTime(At(1'795'248'930'042ms)), "2026-11-21T08:15:30.042Z");
  EXPECT_EQ(FormatTime(At(1'795'248'930'042ms) + 999'999ns), "2026-11-21T08:15:30.042Z");
  EXPECT_EQ(FormatTime(At(951'782'400'000ms)), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(FormatTime(At(-1ms)), "1969-12-31T23:59:59.999Z");
}

TEST(DeadLetterHeaders, OriginalOnesFirstThenOurs) {
  auto letter = Letter({{"trace", "t1"}, {"none", std::nullopt}, {"trace", "t2"}});
  letter.reason = delivery::DeadLetterReason::kExpired;
  letter.attempts = 3;
  letter.first_attempt = At(1000ms);
  letter.last_attempt = At(2500ms);
  letter.last_status = 503;
  letter.last_error = "not shown beside a status";
  EXPECT_THAT(
      DeadLetterHeaders(letter),
      ElementsAre(Pair("trace", "t1"), Pair("none", std::nullopt), Pair("trace", "t2"),
                  Pair("posthorn-reason", "expired"), Pair("posthorn-subscription", "billing"),
                  Pair("posthorn-topic", "orders"), Pair("posthorn-partition", "7"), Pair("posthorn-offset", "41"),
                  Pair("posthorn-attempts", "3"), Pair("posthorn-first-attempt", "1970-01-01T00:00:01.000Z"),
                  Pair("posthorn-last-attempt", "1970-01-01T00:00:02.500Z"), Pair("posthorn-last-status", "503")));
}

TEST(DeadLetterHeaders, WhatIsNotKnownIsLeftOut) {
  auto letter = Letter({});
  letter.reason = delivery::DeadLetterReason::kTooLarge;
  letter.last_error = "connection refused";
  EXPECT_THAT(
      DeadLetterHeaders(letter),
      ElementsAre(Pair("posthorn-reason", "too-large"), Pair("posthorn-subscription", "billing"),
                  Pair("posthorn-topic", "orders"), Pair("posthorn-partition", "7"), Pair("posthorn-offset", "41"),
                  Pair("posthorn-attempts", "0"), Pair("posthorn-last-error", "connection refused")));
}

TEST(DeadLetterHeaders, OneWithoutItsValueSaysHowLargeThatWas) {
  auto letter = Letter({});
  letter.reason = delivery::DeadLetterReason::kTooLarge;
  letter.without_value = true;
  const auto size = letter.record->value() ? letter.record->value()->size() : 0;
  EXPECT_THAT(DeadLetterHeaders(letter), testing::Contains(Pair("posthorn-value-size", std::to_string(size))));
}

TEST(DeadLetterHeaders, ASecondDeathReplacesWhatWasSaidOfTheFirst) {
  const auto headers = DeadLetterHeaders(Letter({{"posthorn-reason", "rejected"}, {"posthorn-other", "stays"}}));
  EXPECT_THAT(headers, testing::Contains(Pair("posthorn-other", "stays")));
  EXPECT_EQ(std::count_if(headers.begin(), headers.end(), [](const auto& h) { return h.first == "posthorn-reason"; }),
            1);
}

}  // namespace
}  // namespace posthorn::kafka
