#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/admin/metric_table.h"

namespace prometheus {
struct MetricFamily;
}

namespace posthorn::admin {

/// The samples of one scrape. The only way to produce a metric: what is not in the table cannot be added.
///
/// Threads  One at a time.
class MetricSamples {
 public:
  MetricSamples();
  ~MetricSamples();
  MetricSamples(const MetricSamples&) = delete;
  MetricSamples& operator=(const MetricSamples&) = delete;

  /// One value per label of the table's entry, in its order.
  void Add(Metric metric, std::initializer_list<std::string_view> label_values, double value);
  /// `counts`: observations per bucket, one more than `bounds`.
  void AddHistogram(Metric metric, std::initializer_list<std::string_view> label_values, std::span<const double> bounds,
                    std::span<const std::uint64_t> counts, double sum);

  /// One per entry of the table, in its order; without samples where none was added.
  [[nodiscard]] const std::vector<prometheus::MetricFamily>& families() const;
  /// Text exposition format 0.0.4, the same as prometheus::TextSerializer writes, at about a quarter of its time.
  [[nodiscard]] std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::admin
