#include "worker/cli/arrival_counts.h"

#include <algorithm>

namespace posthorn::cli {

void ArrivalCounts::Add(ratelimit::WallTime at, bool failed) {
  ++totals_.requests;
  Second& second = totals_.seconds[ratelimit::LabelAt(at)];
  ++second.requests;
  if (failed) {
    ++totals_.failed;
    ++second.failed;
  }
  if (totals_.seconds.size() > kSecondsKept) totals_.seconds.erase(totals_.seconds.begin());

  std::int64_t ns = at.time_since_epoch().count();
  if (!recent_.empty()) ns = std::max(ns, recent_.back());
  recent_.push_back(ns);
  Slide(span_10ms_, ns, totals_.largest_10ms);
  Slide(span_100ms_, ns, totals_.largest_100ms);
  Slide(span_1s_, ns, totals_.largest_1s);
  while (recent_first_ < span_1s_.first) {
    recent_.pop_front();
    ++recent_first_;
  }
}

void ArrivalCounts::Slide(Span& span, std::int64_t newest, std::uint64_t& largest) {
  // The span ends with the newest arrival and is half open: two arrivals a full length apart are not both in it.
  while (recent_[span.first - recent_first_] <= newest - span.length_ns) ++span.first;
  largest = std::max(largest, recent_first_ + recent_.size() - span.first);
}

ArrivalCounts::Second ArrivalCounts::At(ratelimit::Label second) const {
  const auto found = totals_.seconds.find(second);
  return found == totals_.seconds.end() ? Second{} : found->second;
}

}  // namespace posthorn::cli
