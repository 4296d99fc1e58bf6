#include "worker/fleet/use_audit.h"

#include <algorithm>

namespace posthorn::fleet {

void UseAudit::SetTerms(const std::string& limit, const ratelimit::MaxRate& rate, ratelimit::Label now) {
  const auto [place, first] = limits_.try_emplace(limit, Limit{rate, rate, now, {}});
  auto& known = place->second;
  if (first || known.rate == rate) return;
  // Of several changes in quick succession the highest counts for all.
  const bool running = now < known.changed + kRunOn && known.rate < known.before;
  if (!running) known.before = known.rate;
  known.rate = rate;
  known.changed = now;
}

void UseAudit::Hear(ratelimit::Incarnation from, const ratelimit::LimitReport& report, ratelimit::Label now) {
  const auto found = limits_.find(report.limit);
  if (found == limits_.end() || report.used_before < 0) return;
  if (report.label < now - kWait || report.label > now + kRunOn) return;
  auto& used = found->second.used[report.label - 1][from];
  used = std::max(used, std::min(report.used_before, 2 * ratelimit::MaxRate::kMaxPerSecond));
}

std::uint64_t UseAudit::Close(ratelimit::Label label) {
  std::uint64_t above = 0;
  for (auto& [name, limit] : limits_) {
    while (!limit.used.empty() && limit.used.begin()->first < label - kWait) {
      const auto& [w, by] = *limit.used.begin();
      std::int64_t sum = 0;
      for (const auto& [who, used] : by) sum += used;
      std::int64_t total = limit.rate.Total(w);
      if (w < limit.changed + kRunOn) total = std::max(total, limit.before.Total(w));
      if (sum > total) above += static_cast<std::uint64_t>(sum - total);
      limit.used.erase(limit.used.begin());
    }
  }
  return above;
}

}  // namespace posthorn::fleet
