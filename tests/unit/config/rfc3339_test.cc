#include "config/rfc3339.h"

#include <gtest/gtest.h>

#include <random>

namespace posthorn::config {
namespace {

using ratelimit::Nanoseconds;
using ratelimit::WallTime;
using std::chrono::milliseconds;

WallTime At(std::int64_t ms) { return WallTime(milliseconds(ms)); }

TEST(Rfc3339Test, IsWrittenInUtcWithMilliseconds) {
  EXPECT_EQ(FormatRfc3339(At(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatRfc3339(At(1'795'248'930'042)), "2026-11-21T08:15:30.042Z");
  EXPECT_EQ(FormatRfc3339(At(1'795'248'930'042) + Nanoseconds(999'999)), "2026-11-21T08:15:30.042Z");
  EXPECT_EQ(FormatRfc3339(At(951'782'400'000)), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(FormatRfc3339(At(-1)), "1969-12-31T23:59:59.999Z");
}

TEST(Rfc3339Test, IsReadInAllItsForms) {
  const auto expected = At(1'795'248'930'000);
  EXPECT_EQ(ParseRfc3339("2026-11-21T08:15:30Z"), expected);
  EXPECT_EQ(ParseRfc3339("2026-11-21t08:15:30z"), expected);
  EXPECT_EQ(ParseRfc3339("2026-11-21T09:15:30+01:00"), expected);
  EXPECT_EQ(ParseRfc3339("2026-11-21T02:45:30-05:30"), expected);
  EXPECT_EQ(ParseRfc3339("2026-11-21T08:15:30.5Z"), expected + milliseconds(500));
  EXPECT_EQ(ParseRfc3339("2026-11-21T08:15:30.042000000999Z"), expected + milliseconds(42));
  EXPECT_EQ(ParseRfc3339("2026-12-31T23:59:60Z"), ParseRfc3339("2027-01-01T00:00:00Z"));
}

TEST(Rfc3339Test, NothingElseIsATime) {
  for (const auto* text :
       {"", "now", "10min", "2026-11-21", "2026-11-21T08:15:30", "2026-11-21 08:15:30Z", "2026-02-30T08:15:30Z",
        "2026-13-01T08:15:30Z", "2026-00-01T08:15:30Z", "2026-11-21T24:00:00Z", "2026-11-21T08:60:30Z",
        "2026-11-21T08:15:30.Z", "2026-11-21T08:15:30Zx", "2026-11-21T08:15:30+0100", "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z", "+026-11-21T08:15:30Z", "2026-11-21T08:15:30+24:00"}) {
    EXPECT_FALSE(ParseRfc3339(text)) << text;
  }
}

TEST(Rfc3339Test, WhatIsWrittenIsReadAgain) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 10'000; ++i) {
    const auto time = At(static_cast<std::int64_t>(random() % 7'258'118'400'000));
    ASSERT_EQ(ParseRfc3339(FormatRfc3339(time)), time);
    auto damaged = FormatRfc3339(time);
    damaged[random() % damaged.size()] = static_cast<char>(random());
    if (const auto other = ParseRfc3339(damaged)) {
      ASSERT_EQ(ParseRfc3339(FormatRfc3339(*other)), std::chrono::floor<milliseconds>(*other));
    }
  }
}

}  // namespace
}  // namespace posthorn::config
