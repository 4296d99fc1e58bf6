#include "worker/admin/metric_samples.h"

#include <prometheus/metric_family.h>

#include <cassert>
#include <charconv>
#include <cmath>

namespace posthorn::admin {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return MetricType::Counter;
    case MetricKind::kGauge:
      return MetricType::Gauge;
    case MetricKind::kHistogram:
      return MetricType::Histogram;
  }
  return MetricType::Untyped;
}

const char* NameOf(MetricType type) {
  if (type == MetricType::Counter) return "counter";
  if (type == MetricType::Histogram) return "histogram";
  return "gauge";
}

void AppendNumber(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "Nan";
    return;
  }
  if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
    return;
  }
  char buffer[32];
  constexpr double kExactIntegers = 9'007'199'254'740'992.0;  // 2^53: above it not every integer is a double
  const bool integer = std::abs(value) < kExactIntegers && value == std::floor(value);
  const auto end = integer ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<std::int64_t>(value)).ptr
                           : std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void AppendCount(std::string& out, std::uint64_t value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\' || (quotes && c == '"')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
}

/// `name{a="b",` or `name`: ended by EndLabels.
void BeginLine(std::string& out, const MetricFamily& family, const char* suffix, const ClientMetric& metric) {
  out += family.name;
  out += suffix;
  char separator = '{';
  for (const auto& label : metric.label) {
    out += separator;
    out += label.name;
    out += "=\"";
    AppendEscaped(out, label.value, true);
    out += '"';
    separator = ',';
  }
}

void AppendSample(std::string& out, const MetricFamily& family, const char* suffix, const ClientMetric& metric,
                  double value) {
  BeginLine(out, family, suffix, metric);
  out += metric.label.empty() ? " " : "} ";
  AppendNumber(out, value);
  out += '\n';
}

void AppendHistogram(std::string& out, const MetricFamily& family, const ClientMetric& metric) {
  const auto& histogram = metric.histogram;
  BeginLine(out, family, "_count", metric);
  out += metric.label.empty() ? " " : "} ";
  AppendCount(out, histogram.sample_count);
  out += '\n';
  AppendSample(out, family, "_sum", metric, histogram.sample_sum);
  for (const auto& bucket : histogram.bucket) {
    BeginLine(out, family, "_bucket", metric);
    out += metric.label.empty() ? "{le=\"" : ",le=\"";
    AppendNumber(out, bucket.upper_bound);
    out += "\"} ";
    AppendCount(out, bucket.cumulative_count);
    out += '\n';
  }
}

}  // namespace

struct MetricSamples::Impl {
  std::vector<MetricFamily> families = std::vector<MetricFamily>(kMetricCount);

  ClientMetric& AddTo(Metric metric, std::initializer_list<std::string_view> label_values) {
    const auto& entry = EntryOf(metric);
    assert(label_values.size() == entry.label_count());
    auto& added = families[static_cast<std::size_t>(metric)].metric.emplace_back();
    added.label.reserve(label_values.size());
    std::size_t i = 0;
    for (const auto value : label_values) added.label.push_back({std::string(entry.labels[i++]), std::string(value)});
    return added;
  }
};

MetricSamples::MetricSamples() : impl_(std::make_unique<Impl>()) {
  for (const auto& entry : MetricTable()) {
    auto& family = impl_->families[static_cast<std::size_t>(entry.id)];
    family.name = entry.name;
    family.help = entry.help;
    family.type = TypeOf(entry.kind);
  }
}

MetricSamples::~MetricSamples() = default;

void MetricSamples::Add(Metric metric, std::initializer_list<std::string_view> label_values, double value) {
  auto& added = impl_->AddTo(metric, label_values);
  assert(EntryOf(metric).kind != MetricKind::kHistogram);
  (EntryOf(metric).kind == MetricKind::kCounter ? added.counter.value : added.gauge.value) = value;
}

void MetricSamples::AddHistogram(Metric metric, std::initializer_list<std::string_view> label_values,
                                 std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum) {
  assert(EntryOf(metric).kind == MetricKind::kHistogram && counts.size() == bounds.size() + 1);
  auto& histogram = impl_->AddTo(metric, label_values).histogram;
  histogram.bucket.reserve(counts.size());
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    cumulative += counts[i];
    histogram.bucket.push_back({cumulative, i < bounds.size() ? bounds[i] : INFINITY});
  }
  histogram.sample_count = cumulative;
  histogram.sample_sum = sum;
}

const std::vector<MetricFamily>& MetricSamples::families() const { return impl_->families; }

std::string MetricSamples::Text() const {
  std::string out;
  for (const auto& family : impl_->families) {
    if (family.metric.empty()) continue;
    out += "# HELP " + family.name + ' ';
    AppendEscaped(out, family.help, false);
    out += "\n# TYPE " + family.name + ' ' + NameOf(family.type) + '\n';
    for (const auto& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        AppendHistogram(out, family, metric);
      } else {
        AppendSample(out, family, "", metric,
                     family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value);
      }
    }
  }
  return out;
}

}  // namespace posthorn::admin
