#include "worker/fleet/use_audit.h"

#include <algorithm>

namespace posthorn::fleet {

void UseAudit::SetTerms(const std::string& limit, const ratelimit::Terms& terms, ratelimit::Label now) {
  const auto [place, first] = limits_.try_emplace(limit, Limit{terms, {}, {}});
  auto& known = place->second;
  // Those known stay where only they say what was before now: these windows are judged later.
  if (first || known.terms.SameFrom(now, terms)) return;
  known.before.push_back({known.terms, now + kRunOn});
  known.terms = terms;
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
      std::int64_t total = limit.terms.Total(w);
      for (const auto& before : limit.before) {
        if (w < before.until) total = std::max(total, before.terms.Total(w));
      }
      if (sum > total) above += static_cast<std::uint64_t>(sum - total);
      limit.used.erase(limit.used.begin());
    }
    std::erase_if(limit.before, [&](const Limit::Before& before) { return before.until < label - kWait; });
  }
  return above;
}

}  // namespace posthorn::fleet
