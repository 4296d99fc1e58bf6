#include "config/units.h"

#include <gmock/gmock.h>

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;

TEST(UnitsTest, DurationsWithTheirUnits) {
  EXPECT_EQ(ParseDuration("200ms", nullptr), Milliseconds(200));
  EXPECT_EQ(ParseDuration("5s", nullptr), Milliseconds(5000));
  EXPECT_EQ(ParseDuration("10min", nullptr), Milliseconds(600'000));
  EXPECT_EQ(ParseDuration("1h", nullptr), Milliseconds(3'600'000));
  EXPECT_EQ(ParseDuration("1.5s", nullptr), Milliseconds(1500));
  EXPECT_EQ(ParseDuration("0.25h", nullptr), Milliseconds(900'000));
  EXPECT_EQ(ParseDuration("0ms", nullptr), Milliseconds(0));
}

TEST(UnitsTest, DurationsThatAreNone) {
  for (const char* text : {"", "s", "5", "5 s", "-5s", "5S", "5m", "5sec", "1h30min", "1.s", ".5s", "1.2.3s", "0.5ms",
                           "1.0000001s", "99999999999999999999s", "9223372036854775807h", "1e3s", "+1s"}) {
    std::string why;
    EXPECT_FALSE(ParseDuration(text, &why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

TEST(UnitsTest, BareNumberNamesTheMissingUnit) {
  std::string why;
  EXPECT_FALSE(ParseDuration("5", &why));
  EXPECT_THAT(why, HasSubstr("has no unit"));
  EXPECT_FALSE(ParseSize("5", &why));
  EXPECT_THAT(why, HasSubstr("has no unit"));
}

TEST(UnitsTest, SizesArePowersOfTwo) {
  EXPECT_EQ(ParseSize("12B", nullptr), 12u);
  EXPECT_EQ(ParseSize("64KiB", nullptr), 65536u);
  EXPECT_EQ(ParseSize("1MiB", nullptr), 1048576u);
  EXPECT_EQ(ParseSize("1.5GiB", nullptr), 1610612736u);
  for (const char* text : {"", "64", "64KB", "64kib", "-1MiB", "0.3B"}) EXPECT_FALSE(ParseSize(text, nullptr)) << text;
}

TEST(UnitsTest, NumbersTakeNothingElse) {
  EXPECT_EQ(ParseInteger("64", nullptr), 64);
  EXPECT_EQ(ParseInteger("-3", nullptr), -3);
  for (const char* text : {"", "6 4", "64x", "1.5", "0x10", "99999999999999999999"}) {
    EXPECT_FALSE(ParseInteger(text, nullptr)) << text;
  }
  EXPECT_EQ(ParseNumber("1.5", nullptr), 1.5);
  EXPECT_EQ(ParseNumber("2", nullptr), 2.0);
  for (const char* text : {"", "two", "1.5x", "inf", "nan", "1e400"}) EXPECT_FALSE(ParseNumber(text, nullptr)) << text;
}

TEST(UnitsTest, WhatIsFormattedReadsBack) {
  for (const std::int64_t ms : {0, 1, 200, 1000, 1500, 60'000, 90'000, 3'600'000, 31'536'000}) {
    EXPECT_EQ(ParseDuration(FormatDuration(Milliseconds(ms)), nullptr), Milliseconds(ms));
  }
  EXPECT_EQ(FormatDuration(Milliseconds(600'000)), "10min");
  for (const std::uint64_t size : {0ull, 1ull, 1024ull, 1536ull, 256ull << 20, 3ull << 30}) {
    EXPECT_EQ(ParseSize(FormatSize(size), nullptr), size);
  }
  EXPECT_EQ(FormatSize(256ull << 20), "256MiB");
  EXPECT_EQ(FormatNumber(2), "2");
  EXPECT_EQ(FormatNumber(1.5), "1.5");
}

}  // namespace
}  // namespace posthorn::config
