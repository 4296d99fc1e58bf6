#include "ratelimit/leases/slot_shares.h"

#include <algorithm>

#include "ratelimit/share_dealing.h"

namespace posthorn::ratelimit {

SlotShares::SlotShares(const Terms& terms, int settle, Label now)
    : terms_(terms), settle_(settle), settled_from_(now + settle) {}

bool SlotShares::SetTerms(const Terms& terms, Label now) {
  if (terms.revision <= terms_.revision) return false;
  if (terms.rate != terms_.rate || terms.slots != terms_.slots) {
    if (now >= settled_from_) earlier_.clear();
    earlier_.push_back(terms_);
    settled_from_ = now + settle_;
  }
  terms_ = terms;
  return true;
}

std::int64_t SlotShares::Least(std::uint32_t slot, Label w) const {
  if (slot >= terms_.slots) return 0;
  if (w >= settled_from_) return Hand(terms_.slots, {slot}).Share(terms_.rate, w);
  std::int64_t least = terms_.rate.Total(w) / terms_.slots;
  for (const Terms& terms : earlier_) {
    least = std::min(least, slot < terms.slots ? terms.rate.Total(w) / terms.slots : 0);
  }
  return least;
}

std::int64_t SlotShares::Most(std::uint32_t slot, Label w) const {
  if (w >= settled_from_) return slot < terms_.slots ? Hand(terms_.slots, {slot}).Share(terms_.rate, w) : 0;
  const auto rounded_up = [&](const Terms& terms) {
    return slot < terms.slots ? (terms.rate.Total(w) + terms.slots - 1) / terms.slots : 0;
  };
  std::int64_t most = rounded_up(terms_);
  for (const Terms& terms : earlier_) most = std::max(most, rounded_up(terms));
  return most;
}

std::uint32_t SlotShares::slots() const {
  std::uint32_t slots = terms_.slots;
  for (const Terms& terms : earlier_) slots = std::max(slots, terms.slots);
  return slots;
}

}  // namespace posthorn::ratelimit
