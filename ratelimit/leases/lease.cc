#include "ratelimit/leases/lease.h"

#include <algorithm>
#include <utility>

namespace posthorn::ratelimit {

Lease::Lease(std::string limit, const Process& process, const Terms& terms, WallTime now, Mutation mutation)
    : limit_(std::move(limit)),
      process_(process),
      // Leases planned by earlier terms run on for their length, beside shares of slots by the new ones.
      slots_(terms, process.settle + process.length, LabelAt(now)),
      label_(std::max(process.started, LabelAt(now))),
      mutation_(mutation) {}

std::optional<SlotClaim> Lease::ClaimOf(const Process& process) {
  if (!process.slot) return std::nullopt;
  // The predecessor was gone when this process started, its clock at most clock_labels ahead. Its newest lease began at
  // most clock_labels after its newest label (W7).
  return SlotClaim{*process.slot, process.started + process.clock_labels + 1,
                   process.started + 2 * process.clock_labels + process.length};
}

Label Lease::Advance(WallTime now) {
  label_ = std::max(label_, LabelAt(now));
  return label_;
}

bool Lease::Accept(const Grant& grant, WallTime now) {
  Advance(now);
  if (grant.to != process_.self || grant.limit != limit_) return false;
  if (grant.id <= held() && mutation_ != Mutation::kAnyOrder) return false;
  if (grant.shares.empty() || static_cast<int>(grant.shares.size()) > process_.length) return false;
  if (grant.first > label_ + process_.clock_labels) return false;
  if (std::any_of(grant.shares.begin(), grant.shares.end(), [](std::int64_t share) { return share < 0; })) return false;
  held_ = grant;
  return true;
}

bool Lease::SetTerms(const Terms& terms, WallTime now) { return slots_.SetTerms(terms, Advance(now)); }

Lease::Cap Lease::CapAt(Label w) const {
  if (left_) return {};
  if (held_ && w < held_->end()) return {CutShare(held_->ShareAt(w), held_->terms, terms(), w), Source::kLease};
  const auto claim = ClaimOf(process_);
  if (!claim || w < claim->fallback_from || claim->slot >= terms().slots) return {};
  return {slots_.Least(claim->slot, w), Source::kFallback};
}

std::optional<Label> Lease::CoveredUntil() const { return held_ ? std::optional(held_->end()) : std::nullopt; }

LimitReport Lease::Report(std::int64_t used, std::int64_t used_before, std::int64_t demand, bool starved) const {
  LimitReport report;
  report.limit = limit_;
  report.held = held();
  report.label = label_;
  report.committed = std::max(used, CapAt(label_).permits);
  report.demand = left_ ? 0 : demand;
  report.used_before = used_before;
  report.revision = terms().revision;
  report.starved = starved;
  report.leaving = left_;
  return report;
}

}  // namespace posthorn::ratelimit
