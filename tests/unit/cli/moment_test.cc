#include "worker/cli/moment.h"

#include <gtest/gtest.h>

#include "config/rfc3339.h"

namespace posthorn::cli {
namespace {

const auto kReference = *config::ParseRfc3339("2026-11-21T12:00:00Z");

TEST(MomentTest, ATimeOrHowLongAgo) {
  std::string why;
  EXPECT_EQ(ParseMoment("2026-11-21T08:15:30+01:00", kReference, &why), config::ParseRfc3339("2026-11-21T07:15:30Z"));
  EXPECT_EQ(ParseMoment("10min", kReference, &why), kReference - std::chrono::minutes(10));
  EXPECT_EQ(ParseMoment("36h", kReference, &why), kReference - std::chrono::hours(36));
  EXPECT_EQ(ParseMoment("876000h", kReference, &why), runtime::WallTime()) << "not before 1970";
  for (const auto* text : {"", "yesterday", "10", "-5s", "2026-11-21"}) {
    why.clear();
    EXPECT_FALSE(ParseMoment(text, kReference, &why)) << text;
    EXPECT_FALSE(why.empty());
  }
}

TEST(MomentTest, APlaceIsPartitionAndOffset) {
  std::string why;
  EXPECT_EQ(ParsePlace("3:1500", &why), std::pair(std::int32_t{3}, delivery::Offset{1500}));
  EXPECT_EQ(ParsePlace("0:0", &why), std::pair(std::int32_t{0}, delivery::Offset{0}));
  for (const auto* text : {"", "3", "3:", ":3", "3:-1", "-1:3", "3:1:2", "3: 1", "3:99999999999999999999", "a:b"}) {
    why.clear();
    EXPECT_FALSE(ParsePlace(text, &why)) << text;
    EXPECT_FALSE(why.empty());
  }
}

}  // namespace
}  // namespace posthorn::cli
