#include "ratelimit/leased_shares.h"

#include <variant>

namespace posthorn::ratelimit {

LeasedShares::LeasedShares(const std::string& limit, const Lease::Process& process, const Plan& plan, WallTime now)
    : plan_(plan), lease_(limit, process, TermsOf(plan), now) {}

Terms LeasedShares::TermsOf(const Plan& plan) {
  const auto& dealing = std::get<LeaseDealing>(plan.dealing);
  return {plan.rate, dealing.slots, dealing.revision};
}

bool LeasedShares::Learn(const Plan& plan, WallTime now) {
  if (plan == plan_) return false;
  plan_ = plan;
  lease_.SetTerms(TermsOf(plan), now);
  return true;
}

std::optional<Label> LeasedShares::NextOpen(Label after) const {
  if (fenced_ || plan_.rate.IsZero()) return std::nullopt;
  for (Label w = after + 1; w <= after + kLongestLease; ++w) {
    const auto cap = lease_.CapAt(w);
    if (cap.permits > 0) return w;
    if (cap.source == Lease::Source::kNothing && std::get<LeaseDealing>(plan_.dealing).slots == 0) return std::nullopt;
  }
  return after + kLongestLease + 1;
}

}  // namespace posthorn::ratelimit
