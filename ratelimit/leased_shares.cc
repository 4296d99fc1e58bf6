#include "ratelimit/leased_shares.h"

#include <variant>

namespace posthorn::ratelimit {

LeasedShares::LeasedShares(const std::string& limit, const Lease::Process& process, const Plan& plan, WallTime now)
    : plan_(plan), lease_(limit, process, TermsOf(plan), now) {}

Terms LeasedShares::TermsOf(const Plan& plan) {
  const auto& dealing = std::get<LeaseDealing>(plan.dealing);
  Terms terms{plan.rate, dealing.slots, dealing.revision};
  if (plan.next) terms.next = {plan.next->from, plan.next->rate, std::get<LeaseDealing>(plan.next->dealing).slots};
  return terms;
}

bool LeasedShares::Learn(const Plan& plan, WallTime now) {
  if (plan == plan_) return false;
  plan_ = plan;
  lease_.SetTerms(TermsOf(plan), now);
  return true;
}

std::optional<Label> LeasedShares::NextOpen(Label after) const {
  if (fenced_) return std::nullopt;
  const Terms terms = TermsOf(plan_);
  if (terms.RateAt(after + 1).IsZero()) {
    const bool opens = terms.next && terms.next->from > after && !terms.next->rate.IsZero();
    return opens ? std::optional(terms.next->from) : std::nullopt;
  }
  for (Label w = after + 1; w <= after + kLongestLease; ++w) {
    const auto cap = lease_.CapAt(w);
    if (cap.permits > 0) return w;
    if (cap.source == Lease::Source::kNothing && terms.SlotsAt(w) == 0) return std::nullopt;
  }
  return after + kLongestLease + 1;
}

}  // namespace posthorn::ratelimit
