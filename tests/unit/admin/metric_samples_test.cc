#include "worker/admin/metric_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <cstdlib>

namespace posthorn::admin {
namespace {

using ::testing::HasSubstr;

/// prometheus-cpp's own writer, without the families that are empty.
std::string Reference(const MetricSamples& samples) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& family : samples.families()) {
    if (!family.metric.empty()) families.push_back(family);
  }
  const prometheus::TextSerializer serializer;
  return static_cast<const prometheus::Serializer&>(serializer).Serialize(families);
}

TEST(MetricSamples, WritesWhatPrometheusCppWrites) {
  MetricSamples samples;
  samples.Add(Metric::kDeliveryAttempts, {"billing", "delivered"}, 1'234'567);
  samples.Add(Metric::kDeliveryAttempts, {"billing", "rejected"}, 0);
  samples.Add(Metric::kConsumerLag, {"billing", "orders", "11"}, 42);
  samples.Add(Metric::kLimitMaxRate, {"acme"}, 0.125);
  samples.Add(Metric::kConfigAge, {}, 12.5);
  const std::array<double, 3> bounds = {0.0025, 0.5, 10};
  const std::array<std::uint64_t, 4> counts = {1, 0, 5, 2};
  samples.AddHistogram(Metric::kDeliveryAttemptDuration, {"billing"}, bounds, counts, 31.75);
  EXPECT_EQ(samples.Text(), Reference(samples));
}

TEST(MetricSamples, EscapesLabelValues) {
  MetricSamples samples;
  samples.Add(Metric::kBuildInfo, {"a\"b\\c\nd"}, 1);
  EXPECT_THAT(samples.Text(), HasSubstr("posthorn_build_info{version=\"a\\\"b\\\\c\\nd\"} 1\n"));
  EXPECT_EQ(samples.Text(), Reference(samples));
}

TEST(MetricSamples, HistogramIsCumulativeAndEndsWithInfinity) {
  MetricSamples samples;
  const std::array<double, 2> bounds = {0.1, 1};
  const std::array<std::uint64_t, 3> counts = {3, 4, 5};
  samples.AddHistogram(Metric::kDeliveryAttemptDuration, {"billing"}, bounds, counts, 9);
  const auto text = samples.Text();
  EXPECT_THAT(text,
              HasSubstr("posthorn_delivery_attempt_duration_seconds_bucket{subscription=\"billing\",le=\"0.1\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("posthorn_delivery_attempt_duration_seconds_bucket{subscription=\"billing\",le=\"1\"} 7\n"));
  EXPECT_THAT(
      text, HasSubstr("posthorn_delivery_attempt_duration_seconds_bucket{subscription=\"billing\",le=\"+Inf\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("posthorn_delivery_attempt_duration_seconds_count{subscription=\"billing\"} 12\n"));
}

TEST(MetricSamples, WritesEveryNumberSoThatItReadsBack) {
  for (const double value : {0.1 + 0.2, 1e300, 5e-324, 9'007'199'254'740'993.0, 100'000.0, -3.0, 1.0 / 3.0}) {
    MetricSamples samples;
    samples.Add(Metric::kConfigAge, {}, value);
    const auto text = samples.Text();
    EXPECT_EQ(std::strtod(text.c_str() + text.rfind(' '), nullptr), value) << text;
  }
  MetricSamples samples;
  samples.Add(Metric::kConfigAge, {}, 100'000);
  EXPECT_THAT(samples.Text(), HasSubstr("posthorn_config_age_seconds 100000\n"));
}

TEST(MetricSamples, FamiliesWithoutSamplesAreLeftOut) {
  const MetricSamples samples;
  EXPECT_EQ(samples.Text(), "");
}

}  // namespace
}  // namespace posthorn::admin
