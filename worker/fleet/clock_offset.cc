#include "worker/fleet/clock_offset.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace posthorn::fleet {

void ClockOffset::Add(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored,
                      runtime::WallTime known) {
  if (known < sent) return;
  auto& of = partitions_[partition];
  const Bounds bounds{sent - stored - std::chrono::milliseconds(1), known - stored};
  const auto apart = [&](const Bounds& other) { return bounds.least > other.most || bounds.most < other.least; };
  if (std::any_of(of.samples.begin(), of.samples.begin() + static_cast<std::ptrdiff_t>(of.known), apart)) of = {};
  of.samples[of.next] = bounds;
  of.next = (of.next + 1) % kSamples;
  of.known = std::min(of.known + 1, kSamples);
}

std::optional<ClockOffset::Bounds> ClockOffset::Estimate() const {
  std::vector<Bounds> narrowest;
  for (const auto& [partition, of] : partitions_) {
    narrowest.push_back(
        *std::min_element(of.samples.begin(), of.samples.begin() + static_cast<std::ptrdiff_t>(of.known),
                          [](const Bounds& a, const Bounds& b) { return a.most - a.least < b.most - b.least; }));
  }
  if (narrowest.empty()) return std::nullopt;
  const auto middle = narrowest.begin() + static_cast<std::ptrdiff_t>(narrowest.size() / 2);
  std::nth_element(narrowest.begin(), middle, narrowest.end(),
                   [](const Bounds& a, const Bounds& b) { return a.middle() < b.middle(); });
  return *middle;
}

bool ClockOffset::Beyond(runtime::Nanoseconds most) const {
  const auto estimate = Estimate();
  return estimate && (estimate->least > most || estimate->most < -most);
}

}  // namespace posthorn::fleet
