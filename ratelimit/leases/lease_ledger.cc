#include "ratelimit/leases/lease_ledger.h"

#include <algorithm>
#include <utility>

namespace posthorn::ratelimit {
namespace {

// A predecessor whose clock was ahead may have granted a few labels beyond a lease's length from here.
constexpr Label kAhead = 4;

}  // namespace

LeaseLedger::LeaseLedger(const Terms& terms, const Options& options, Label now)
    : options_(options), slots_(terms, options.settle, now), floor_(now) {}

bool LeaseLedger::SetTerms(const Terms& terms, Label now) {
  sums_.clear();
  return slots_.SetTerms(terms, now);
}

Label LeaseLedger::Holder::LeastEnd() const {
  Label end = expired_end_;
  for (const Out& out : out_) end = std::min(end, out.end());
  return end;
}

Label LeaseLedger::Holder::MostEnd() const {
  Label end = std::numeric_limits<Label>::min();
  for (const Out& out : out_) end = std::max(end, out.end());
  return end;
}

// What the slot of `holder` adds: its own share wherever the process may be without a lease.
std::int64_t LeaseLedger::Fallback(const Holder& holder, Label w, Label covered_until) const {
  if (!holder.claim_ || options_.mutation == Mutation::kFallbackNotCounted) return 0;
  if (w < holder.claim_->fallback_from || w >= holder.until_) return 0;
  // A successor that nobody has heard of waits for a lease's length before it uses anything (lease.h).
  if (holder.left_ && w < *holder.left_ + options_.length) return 0;
  if (!holder.left_ && w >= holder.covered_from_ && w < covered_until) return 0;
  return slots_.Most(holder.claim_->slot, w);
}

std::int64_t LeaseLedger::Exposure(const Holder& holder, Label w) const {
  std::int64_t most = 0;
  for (const auto& [label, permits] : holder.past_) {
    if (label == w) most = permits;
  }
  for (const auto& out : holder.out_) most = std::max(most, out.ShareAt(w));
  return holder.claim_ ? std::max(most, Fallback(holder, w, holder.LeastEnd())) : most;
}

std::int64_t LeaseLedger::ExposureWith(const Holder& holder, const Grant& grant, Label w) const {
  std::int64_t most = grant.ShareAt(w);
  if (options_.mutation != Mutation::kFreeBeforeAck) most = std::max(most, Exposure(holder, w));
  return std::max(most, Fallback(holder, w, std::min(holder.LeastEnd(), grant.end())));
}

const LeaseLedger::Holder::Out* LeaseLedger::Holder::Newest() const {
  const auto newest = std::find_if(out_.rbegin(), out_.rend(), [](const Out& out) { return out.certain; });
  return newest != out_.rend() ? &*newest : nullptr;
}

std::int64_t LeaseLedger::Last(const Holder& holder, Label w) const {
  const Holder::Out* newest = holder.Newest();
  return newest != nullptr ? newest->ShareAt(w) : 0;
}

std::int64_t LeaseLedger::LastCut(const Holder& holder, Label w) const {
  const Holder::Out* newest = holder.Newest();
  return newest != nullptr ? CutShare(newest->ShareAt(w), newest->terms, terms(), w) : 0;
}

Label LeaseLedger::CoveredUntil(const Holder& holder) const {
  return holder.out_.empty() ? floor_ : holder.out_.back().end();
}

std::int64_t LeaseLedger::Unclaimed(Label w) const {
  if (options_.mutation == Mutation::kFallbackNotCounted) return 0;
  std::int64_t sum = 0;
  auto occupied = occupied_.begin();
  for (std::uint32_t slot = 0; slot < slots_.slots(); ++slot) {
    while (occupied != occupied_.end() && occupied->first < slot) ++occupied;
    if (occupied != occupied_.end() && occupied->first == slot && w >= occupied->second.known_from) continue;
    sum += slots_.Most(slot, w);
  }
  return sum;
}

std::int64_t LeaseLedger::SumAt(Label w) const {
  std::int64_t sum = Unclaimed(w);
  for (const auto& [who, holder] : holders_) sum += Exposure(holder, w);
  return sum;
}

std::int64_t LeaseLedger::TotalExposure(Label w) const {
  if (sums_.empty()) {
    for (Label label = floor_; label < floor_ + options_.length + kAhead; ++label) sums_.push_back(SumAt(label));
  }
  const auto index = static_cast<std::size_t>(w - floor_);
  return w >= floor_ && index < sums_.size() ? sums_[index] : SumAt(w);
}

bool LeaseLedger::MaySend(const Grant& grant) const {
  if (grant.first < floor_ || grant.shares.size() > kLongestLease) return false;
  static const Holder kNobody;
  const auto found = holders_.find(grant.to);
  const Holder& holder = found == holders_.end() ? kNobody : found->second;
  if (holder.left_ || grant.id <= holder.newest_) return false;
  if (options_.mutation == Mutation::kGrowthIgnoresFree) return true;

  // A process in a slot falls back from the lease's end on, which may be earlier now than it was.
  Label end = grant.end();
  if (holder.claim_) end = std::max(end, holder.MostEnd());
  for (Label w = grant.first; w < end; ++w) {
    const std::int64_t before = Exposure(holder, w);
    const std::int64_t after = ExposureWith(holder, grant, w);
    if (TotalExposure(w) - before + after <= Total(w)) continue;
    if (w >= grant.end() && after == before) continue;
    const std::int64_t again = options_.mutation == Mutation::kReraiseToExposure ? before : Last(holder, w);
    if (w >= grant.end() || grant.ShareAt(w) > again) return false;
  }
  return true;
}

void LeaseLedger::Push(Holder& holder, const Grant& grant, bool certain) {
  std::vector<std::int64_t> before;
  for (Label w = floor_; w < floor_ + static_cast<Label>(sums_.size()); ++w) before.push_back(Exposure(holder, w));
  if (options_.mutation == Mutation::kFreeBeforeAck) holder.out_.clear();
  const auto place = std::upper_bound(holder.out_.begin(), holder.out_.end(), grant.id,
                                      [](const GrantId& id, const Holder::Out& out) { return id < out.id; });
  holder.out_.insert(place, {grant.id, grant.first, grant.shares, grant.terms, certain});
  holder.newest_ = std::max(holder.newest_, grant.id);
  for (std::size_t i = 0; i < before.size(); ++i) {
    sums_[i] += Exposure(holder, floor_ + static_cast<Label>(i)) - before[i];
  }
}

void LeaseLedger::Send(const Grant& grant) { Push(holders_[grant.to], grant, true); }

void LeaseLedger::Replay(const Grant& grant, bool certain) {
  if (grant.shares.size() > kLongestLease || grant.id <= holders_[grant.to].acked_) return;
  for (const auto& out : holders_[grant.to].out_) {
    if (out.id == grant.id) return;
  }
  Push(holders_[grant.to], grant, certain);
}

void LeaseLedger::TakeClaim(Incarnation from, Holder& holder, const SlotClaim& claim) {
  if (holder.claim_) return;  // a process does not move
  holder.claim_ = claim;
  const auto [place, first] = occupied_.try_emplace(claim.slot, Occupancy{from, claim.alone_from});
  Occupancy& occupancy = place->second;
  if (first) return;
  occupancy.known_from = std::min(occupancy.known_from, claim.alone_from);
  const auto other = holders_.find(occupancy.occupant);
  if (other == holders_.end() || !other->second.claim_) {
    occupancy.occupant = from;
  } else if (other->second.claim_->alone_from <= claim.alone_from) {
    other->second.until_ = claim.alone_from;
    occupancy.occupant = from;
  } else {
    holder.until_ = other->second.claim_->alone_from;
  }
}

bool LeaseLedger::Hear(Incarnation from, const LimitReport& report, const std::optional<SlotClaim>& claim) {
  // A label from too far away tells nothing about the labels here; neither does a negative commitment.
  if (report.label < floor_ - kLongestLease || report.label > floor_ + kLongestLease || report.committed < 0)
    return false;
  auto found = holders_.find(from);
  if (found == holders_.end()) found = holders_.try_emplace(from).first;
  Holder& holder = found->second;
  sums_.clear();
  if (claim) TakeClaim(from, holder, *claim);
  if (holder.left_) return true;
  if (report.leaving) {
    KeepPast(holder, report);
    holder.out_.clear();
    holder.left_ = report.label;
    return true;
  }
  if (report.held > holder.newest_) {
    // Of a grant that is not in the log: possible only for one so old that this ledger never knew it.
    return holder.out_.empty();
  }
  if (report.held > holder.acked_) TakeAck(holder, report);
  return true;
}

// The exposure of the labels up to the acker's own, as it is to stay.
void LeaseLedger::KeepPast(Holder& holder, const LimitReport& report) const {
  std::vector<std::pair<Label, std::int64_t>> past;
  for (const auto& entry : holder.past_) {
    if (entry.first > report.label) past.push_back(entry);
  }
  if (options_.mutation != Mutation::kNaiveAck) {
    for (Label w = floor_; w < report.label; ++w) {
      if (const std::int64_t permits = Exposure(holder, w); permits > 0) past.emplace_back(w, permits);
    }
  }
  if (report.label >= floor_) {
    // More than the exposure cannot be committed; a report that says so shall not take from the others.
    const std::int64_t permits = std::min(report.committed, Exposure(holder, report.label));
    if (permits > 0) past.emplace_back(report.label, permits);
  }
  std::sort(past.begin(), past.end());
  holder.past_ = std::move(past);
}

void LeaseLedger::TakeAck(Holder& holder, const LimitReport& report) {
  KeepPast(holder, report);
  if (holder.LeastEnd() < report.label) holder.covered_from_ = Holder::kForever;  // a gap without a lease
  std::erase_if(holder.out_, [&](const Holder::Out& out) { return out.id < report.held; });
  if (report.held > holder.expired_newest_) holder.expired_end_ = Holder::kForever;
  if (holder.out_.empty() || holder.out_.front().id != report.held) {
    // It holds one that is forgotten here: its labels have passed, and it may be without a lease since.
    holder.expired_newest_ = std::max(holder.expired_newest_, report.held);
    holder.expired_end_ = std::min(holder.expired_end_, floor_);
  }
  holder.acked_ = report.held;
  holder.covered_from_ = std::min(holder.covered_from_, report.label);
}

void LeaseLedger::ForgetBefore(Label floor) {
  if (floor <= floor_) return;
  floor_ = floor;
  sums_.clear();
  for (auto at = holders_.begin(); at != holders_.end();) {
    Holder& holder = at->second;
    std::erase_if(holder.past_, [&](const auto& entry) { return entry.first < floor; });
    const GrantId newest = holder.newest_;
    std::erase_if(holder.out_, [&](const Holder::Out& out) {
      if (out.end() > floor || out.id == newest) return false;
      holder.expired_newest_ = std::max(holder.expired_newest_, out.id);
      holder.expired_end_ = std::min(holder.expired_end_, out.end());
      return true;
    });
    // Not the newest alone: a predecessor whose clock was ahead may have granted later labels.
    const bool holds = !holder.past_.empty() || holder.MostEnd() > floor;
    // The last process known of a slot stays: its claim says what the slot is counted for.
    const bool of_slot = holder.claim_ && holder.until_ > floor;
    at = holds || of_slot ? std::next(at) : holders_.erase(at);
  }
}

}  // namespace posthorn::ratelimit
