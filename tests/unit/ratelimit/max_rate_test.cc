#include "ratelimit/max_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing.h"

namespace posthorn::ratelimit {
namespace {

using ::testing::HasSubstr;
using testing::Random;
using testing::Rate;

std::string WhyNot(std::string_view text) {
  std::string why;
  EXPECT_FALSE(MaxRate::Parse(text, &why)) << text;
  EXPECT_EQ(why.find('\n'), std::string::npos);
  return why;
}

TEST(MaxRate, ReadsEveryUnit) {
  EXPECT_EQ(Rate("500/s").Total(0), 500);
  EXPECT_EQ(Rate("30/min"), Rate("0.5/s"));
  EXPECT_EQ(Rate("3600/h"), Rate("1/s"));
  EXPECT_EQ(Rate("000500.500/s"), Rate("500.5/s"));
  EXPECT_EQ(Rate("0"), MaxRate());
  EXPECT_EQ(Rate("0/s"), MaxRate());
  EXPECT_EQ(Rate("0.0/h"), MaxRate());
  EXPECT_LT(Rate("1000/h"), Rate("0.3/s"));
}

TEST(MaxRate, SaysWhatIsWrong) {
  EXPECT_THAT(WhyNot("500"), HasSubstr("has no unit"));
  EXPECT_THAT(WhyNot("-1/s"), HasSubstr("negative"));
  EXPECT_THAT(WhyNot("2000000001/s"), HasSubstr("too much"));
  EXPECT_THAT(WhyNot("7200000000000.000001/h"), HasSubstr("too much"));
  EXPECT_THAT(WhyNot(std::string(1000, '9') + "/s"), HasSubstr("too much"));
  EXPECT_THAT(WhyNot("0.1234567/s"), HasSubstr("decimals"));
  for (const char* text : {"", "/s", "s", "1/", "1/d", "1./s", ".5/s", "1 /s", " 1/s", "1/s ", "1e3/s", "0x1/s",
                           "nan/s", "+1/s", "1,5/s", "1/S", "01\n/s", "1/s\r"}) {
    EXPECT_THAT(WhyNot(text), HasSubstr("is not a rate")) << text;
  }
}

TEST(MaxRate, ItsTextReadsBackToTheSameValue) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = std::to_string(random.In(0, random.OneIn(2) ? 20 : 2'000'000'000 - 1));
    if (random.OneIn(2)) text.append(".").append(std::to_string(random.In(0, 999'999)));
    text += random.Of(std::vector<std::string>{"/s", "/min", "/h"});
    const MaxRate rate = Rate(text);
    std::string why;
    const auto again = MaxRate::Parse(rate.ToString(), &why);
    ASSERT_TRUE(again) << text << " became " << rate.ToString() << ": " << why;
    EXPECT_EQ(*again, rate) << text << " became " << rate.ToString();
  }
  EXPECT_EQ(Rate("30/min").ToString(), "0.5/s");
  EXPECT_EQ(Rate("1000/h").ToString(), "1000/h");
  EXPECT_EQ(Rate("0/min").ToString(), "0");
}

TEST(MaxRate, TotalsAreExactOverAnyStretchOfLabels) {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t per = random.In(0, random.OneIn(2) ? 5000 : 7'200'000'000'000);
    const MaxRate rate = Rate(std::to_string(per) + "/h");
    const Label from = random.In(-2'000'000'000, 4'000'000'000);
    // 3600 windows hold the hour's permits, wherever they begin.
    EXPECT_EQ(rate.CumulativeAt(from + 3600) - rate.CumulativeAt(from), per) << "seed 2, history " << i;
    Wide sum = 0;
    for (Label w = from; w < from + 10; ++w) {
      EXPECT_GE(rate.Total(w), per / 3600);
      EXPECT_LE(rate.Total(w), per / 3600 + 1);
      sum += rate.Total(w);
    }
    EXPECT_EQ(sum, rate.CumulativeAt(from + 10) - rate.CumulativeAt(from));
  }
}

TEST(MaxRate, HoldsAtTheEndsOfTheLabels) {
  const MaxRate most = Rate("2000000000/s");
  for (const Label w : {std::numeric_limits<Label>::min(), Label{-1}, Label{0}, std::numeric_limits<Label>::max()}) {
    EXPECT_EQ(most.Total(w), 2'000'000'000);
    EXPECT_LE(Rate("0.000001/h").Total(w), 1);
    EXPECT_EQ(MaxRate().Total(w), 0);
  }
}

TEST(MaxRate, FindsTheFirstLabelThatReachesACount) {
  Random random(3);
  for (int i = 0; i < 10'000; ++i) {
    const MaxRate rate = Rate(std::to_string(random.In(1, 20'000)) + "/h");
    const Wide permits = random.In(-1'000'000, 1'000'000);
    const Label w = rate.FirstLabelReaching(permits);
    EXPECT_GE(rate.CumulativeAt(w), permits);
    EXPECT_LT(rate.CumulativeAt(w - 1), permits);
  }
}

}  // namespace
}  // namespace posthorn::ratelimit
