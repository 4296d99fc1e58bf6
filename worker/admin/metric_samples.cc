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

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  std::size_t plain = 0;  // what follows from here needs no escape so far
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '\n' && c != '\\' && !(quotes && c == '"')) continue;
    out += text.substr(plain, i - plain);
    out += '\\';
    out += c == '\n' ? 'n' : c;
    plain = i + 1;
  }
  out += text.substr(plain);
}

/// `{a="b",c="d"}`, or nothing where there are no labels.
std::string LabelsOf(const ClientMetric& metric) {
  std::string labels;
  for (const auto& label : metric.label) {
    labels += labels.empty() ? '{' : ',';
    labels += label.name;
    labels += "=\"";
    AppendEscaped(labels, label.value, true);
    labels += '"';
  }
  if (!labels.empty()) labels += '}';
  return labels;
}

void AppendSample(std::string& out, const std::string& name, const char* suffix, const std::string& labels,
                  double value) {
  out += name;
  out += suffix;
  out += labels;
  out += ' ';
  AppendNumber(out, value);
  out += '\n';
}

void AppendHistogram(std::string& out, const std::string& name, std::string labels,
                     const ClientMetric::Histogram& histogram) {
  AppendSample(out, name, "_count", labels, static_cast<double>(histogram.sample_count));
  AppendSample(out, name, "_sum", labels, histogram.sample_sum);
  if (labels.empty()) {
    labels = "{le=\"";
  } else {
    labels.pop_back();
    labels += ",le=\"";
  }
  for (const auto& bucket : histogram.bucket) {
    out += name;
    out += "_bucket";
    out += labels;
    AppendNumber(out, bucket.upper_bound);
    out += "\"} ";
    AppendNumber(out, static_cast<double>(bucket.cumulative_count));
    out += '\n';
  }
}

}  // namespace

struct MetricSamples::Impl {
  std::vector<MetricFamily> families = std::vector<MetricFamily>(kMetricCount);
  std::size_t lines = 0;

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
  ++impl_->lines;
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
  impl_->lines += counts.size() + 2;
  histogram.sample_count = cumulative;
  histogram.sample_sum = sum;
}

const std::vector<MetricFamily>& MetricSamples::families() const { return impl_->families; }

std::string MetricSamples::Text() const {
  constexpr std::size_t kBytesPerLine = 100;  // about
  std::string out;
  out.reserve(impl_->lines * kBytesPerLine + kMetricCount * 2 * kBytesPerLine);
  for (const auto& family : impl_->families) {
    if (family.metric.empty()) continue;
    out += "# HELP " + family.name + ' ';
    AppendEscaped(out, family.help, false);
    out += "\n# TYPE " + family.name + ' ' + NameOf(family.type) + '\n';
    for (const auto& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        AppendHistogram(out, family.name, LabelsOf(metric), metric.histogram);
      } else {
        AppendSample(out, family.name, "", LabelsOf(metric),
                     family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value);
      }
    }
  }
  return out;
}

}  // namespace posthorn::admin
