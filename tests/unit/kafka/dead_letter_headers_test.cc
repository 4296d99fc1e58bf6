#include "worker/kafka/dead_letter_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/dead_letter_fuzz.h"

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

// ---- read again

std::variant<DeadLetterFacts, std::string> Read(const HeaderList& headers) {
  std::vector<delivery::HeaderView> views;
  for (const auto& [name, value] : headers) {
    views.push_back({name, value ? std::optional<std::string_view>(*value) : std::nullopt});
  }
  return ReadDeadLetterHeaders(views);
}

HeaderList Good() {
  auto letter = Letter({{"trace", "t1"}});
  letter.reason = delivery::DeadLetterReason::kAttempts;
  letter.attempts = 3;
  letter.first_attempt = At(1000ms);
  letter.last_attempt = At(2500ms);
  letter.last_status = 503;
  return DeadLetterHeaders(letter);
}

TEST(ReadDeadLetterHeaders, SaysWhatWasWritten) {
  const auto read = Read(Good());
  const auto* facts = std::get_if<DeadLetterFacts>(&read);
  ASSERT_NE(facts, nullptr) << std::get<std::string>(read);
  EXPECT_EQ(
      *facts,
      (DeadLetterFacts{
          delivery::DeadLetterReason::kAttempts, "billing", {"orders", 7}, 41, 3, At(1000ms), At(2500ms), 503, ""}));
}

TEST(ReadDeadLetterHeaders, EveryReasonIsRead) {
  using enum delivery::DeadLetterReason;
  for (const auto reason : {kExpired, kAttempts, kRejected, kGone, kTooLarge, kFilteredError}) {
    auto letter = Letter({});
    letter.reason = reason;
    letter.last_error = "no\nprintable\x7f text";
    const auto read = Read(DeadLetterHeaders(letter));
    ASSERT_TRUE(std::holds_alternative<DeadLetterFacts>(read)) << std::get<std::string>(read);
    EXPECT_EQ(std::get<DeadLetterFacts>(read).reason, reason);
    EXPECT_EQ(std::get<DeadLetterFacts>(read).last_error, letter.last_error);
  }
}

TEST(ReadDeadLetterHeaders, WhatIsForeignOrDamagedIsNamed) {
  const auto problem = [](const std::string& name, std::optional<std::string> value) {
    auto headers = Good();
    for (auto& [known, text] : headers) {
      if (known == name) text = value;
    }
    const auto read = Read(headers);
    return std::holds_alternative<std::string>(read) ? std::get<std::string>(read) : "accepted";
  };
  EXPECT_EQ(std::get<std::string>(Read({})), "posthorn-reason is missing");
  EXPECT_EQ(problem("posthorn-reason", "bored"), "posthorn-reason is none of Posthorn's");
  EXPECT_EQ(problem("posthorn-subscription", std::nullopt), "posthorn-subscription is null");
  EXPECT_EQ(problem("posthorn-subscription", "../x"), "posthorn-subscription is no subscription's name");
  EXPECT_EQ(problem("posthorn-topic", "a b"), "posthorn-topic is no topic's name");
  EXPECT_EQ(problem("posthorn-partition", "-1"), "posthorn-partition is no number, or out of range");
  EXPECT_EQ(problem("posthorn-offset", "9223372036854775808"), "posthorn-offset is no number, or out of range");
  EXPECT_EQ(problem("posthorn-offset", ""), "posthorn-offset is no number, or out of range");
  EXPECT_EQ(problem("posthorn-attempts", "3 "), "posthorn-attempts is no number, or out of range");
  EXPECT_EQ(problem("posthorn-first-attempt", "yesterday"), "posthorn-first-attempt is no time");
  EXPECT_EQ(problem("posthorn-last-status", "5030"), "posthorn-last-status is no number, or out of range");
  auto twice = Good();
  twice.emplace_back("posthorn-offset", "7");
  EXPECT_EQ(std::get<std::string>(Read(twice)), "posthorn-offset is there twice");
}

TEST(ReadDeadLetterHeaders, GarbageNeverBreaksIt) {
  std::string good;
  for (const auto& [name, value] : Good()) good += name + '\0' + value.value_or("\x01") + '\0';
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = good;
    for (auto changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? '0' + random() % 10 : random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    test::FuzzDeadLetterHeaders(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace posthorn::kafka
