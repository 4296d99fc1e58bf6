#include "ratelimit/baselines/ably_suppression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../testing.h"

namespace posthorn::ratelimit::baselines {
namespace {

using std::chrono::seconds;
using testing::At;
using Measure = AblySuppression::Measure;

constexpr double kLimit = 1000;

// Messages that get through in each second, when `offered` are to be sent; the fraction is known two seconds later.
std::vector<double> Through(Measure measure, int quiet, int flood, std::int64_t offered) {
  AblySuppression suppression(kLimit, At(seconds(0)), measure);
  std::vector<double> through;
  double fraction = 0;
  for (int s = 0; s < quiet + flood; ++s) {
    if (s % 2 == 0) fraction = suppression.Fraction(At(seconds(s)));
    const std::int64_t wanted = s < quiet ? 500 : offered;
    through.push_back(static_cast<double>(wanted) * (1 - fraction));
    const auto achieved = static_cast<std::int64_t>(through.back());
    suppression.Count(measure == Measure::kOffered ? wanted : achieved, At(seconds(s)), At(seconds(s + 1)));
  }
  return through;
}

TEST(AblySuppression, SuppressesNothingUpToTheLimit) {
  AblySuppression suppression(kLimit, At(seconds(0)));
  for (int s = 0; s < 60; ++s) {
    suppression.Count(1000, At(seconds(s)), At(seconds(s + 1)));
    EXPECT_EQ(suppression.Fraction(At(seconds(s + 1))), 0) << s;
  }
}

TEST(AblySuppression, AFloodIsAtTheLimitWhenTheAverageHasFilled) {
  const auto through = Through(Measure::kOffered, 24, 60, 20'000);
  EXPECT_EQ(through[24], 20'000);  // all of it at first
  for (std::size_t s = 26; s < through.size(); ++s) EXPECT_LE(through[s], through[s - 1] + 1e-6) << s;
  EXPECT_GT(through[24 + 12], 1.5 * kLimit);
  for (std::size_t s = 24 + 26; s < through.size(); ++s) EXPECT_NEAR(through[s], kLimit, 1) << s;
}

TEST(AblySuppression, MeasuredByWhatIsAchievedItOscillates) {
  const auto through = Through(Measure::kAchieved, 24, 240, 20'000);
  const auto [least, most] = std::minmax_element(through.begin() + 120, through.end());
  EXPECT_LT(*least, kLimit / 2);
  EXPECT_GT(*most, 5 * kLimit);
}

TEST(AblySuppression, ForgetsAfterAPause) {
  AblySuppression suppression(kLimit, At(seconds(0)));
  for (int s = 0; s < 30; ++s) suppression.Count(20'000, At(seconds(s)), At(seconds(s + 1)));
  EXPECT_GT(suppression.Rate(At(seconds(31))), 10 * kLimit);
  EXPECT_EQ(suppression.Rate(At(seconds(62))), 0);
  EXPECT_EQ(suppression.Rate(At(seconds(100'000))), 0);
}

}  // namespace
}  // namespace posthorn::ratelimit::baselines
