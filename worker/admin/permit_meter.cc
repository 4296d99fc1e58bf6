#include "worker/admin/permit_meter.h"

#include <algorithm>

namespace posthorn::admin {

void PermitMeter::Update(const std::vector<fleet::LimitBook::View>& limits, ratelimit::WallTime now) {
  const auto label = ratelimit::LabelAt(now);
  std::map<std::string, Reading> next;
  for (const auto& view : limits) {
    const auto known = readings_.find(view.name);
    const bool same = known != readings_.end() && known->second.limiter.lock() == view.limiter;
    Reading reading;
    if (same) {
      reading = known->second;
    } else {
      // A limit that was removed and added again is another one, but the counter of its name goes on.
      reading.total = known == readings_.end() ? 0 : known->second.total;
      reading.label = label - 1;
      reading.limiter = view.limiter;
    }
    const auto read = [&](ratelimit::Label w) {
      const auto used = view.limiter->UsedIn(w);
      const auto counted = w == reading.label ? reading.used : 0;
      if (used > counted) reading.total += static_cast<std::uint64_t>(used - counted);
      reading.label = w;
      reading.used = std::max(used, counted);
    };
    // The window read last may have got more since.
    const auto last = reading.label;
    read(last);
    for (auto w = std::max(last + 1, label - 2); w <= label; ++w) read(w);
    next.emplace(view.name, std::move(reading));
  }
  readings_ = std::move(next);
}

std::uint64_t PermitMeter::Total(const std::string& limit) const {
  const auto reading = readings_.find(limit);
  return reading == readings_.end() ? 0 : reading->second.total;
}

}  // namespace posthorn::admin
