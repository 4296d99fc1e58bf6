#include "ratelimit/leases/slot_shares.h"

#include <algorithm>

#include "ratelimit/share_dealing.h"

namespace posthorn::ratelimit {

SlotShares::SlotShares(const Terms& terms, int settle, Label now)
    : terms_(terms), settle_(settle), settled_from_(now + settle) {}

bool SlotShares::SetTerms(const Terms& terms, Label now) {
  if (terms.revision <= terms_.revision) return false;
  if (!terms.SameFrom(now, terms_)) {
    if (now >= settled_from_) earlier_.clear();
    earlier_.push_back(terms_);
    settled_from_ = now + settle_;
  }
  terms_ = terms;
  return true;
}

std::int64_t SlotShares::Least(std::uint32_t slot, Label w) const {
  const std::uint32_t slots = terms_.SlotsAt(w);
  if (slot >= slots) return 0;
  if (w >= settled_from_) return Hand(slots, {slot}).Share(terms_.RateAt(w), w);
  std::int64_t least = terms_.Total(w) / slots;
  for (const Terms& terms : earlier_) {
    least = std::min(least, slot < terms.SlotsAt(w) ? terms.Total(w) / terms.SlotsAt(w) : 0);
  }
  return least;
}

std::int64_t SlotShares::Most(std::uint32_t slot, Label w) const {
  if (w >= settled_from_) {
    return slot < terms_.SlotsAt(w) ? Hand(terms_.SlotsAt(w), {slot}).Share(terms_.RateAt(w), w) : 0;
  }
  const auto rounded_up = [&](const Terms& terms) {
    const std::uint32_t slots = terms.SlotsAt(w);
    return slot < slots ? (terms.Total(w) + slots - 1) / slots : 0;
  };
  std::int64_t most = rounded_up(terms_);
  for (const Terms& terms : earlier_) most = std::max(most, rounded_up(terms));
  return most;
}

std::uint32_t SlotShares::slots() const {
  const auto most = [](const Terms& terms) { return std::max(terms.slots, terms.next ? terms.next->slots : 0); };
  std::uint32_t slots = most(terms_);
  for (const Terms& terms : earlier_) slots = std::max(slots, most(terms));
  return slots;
}

}  // namespace posthorn::ratelimit
