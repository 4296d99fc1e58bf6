#include "ratelimit/leases/coordinator.h"

#include <algorithm>
#include <utility>

#include "ratelimit/leases/planner.h"

namespace posthorn::ratelimit {
namespace {

constexpr Label kPatience = 2;        // windows after a take-over in which workers are waited for
constexpr Label kForgetMembers = 64;  // windows of silence
constexpr std::int64_t kMostDemand = MaxRate::kMaxPerSecond;

}  // namespace

Coordinator::Coordinator(const Options& options) : options_(options), fence_(options.mutation) {
  options_.length = std::clamp(options_.length, 1, kLongestLease);
}

Label Coordinator::Advance(WallTime now) {
  label_ = std::max(label_, LabelAt(now));
  return label_;
}

Coordinator::Limit& Coordinator::LimitOf(const std::string& name, const Terms& terms) {
  const auto found = limits_.find(name);
  if (found != limits_.end()) {
    found->second.forget_from.reset();
    if (found->second.ledger.SetTerms(terms, label_)) found->second.changed = true;
    return found->second;
  }
  const LeaseLedger::Options options{options_.length, options_.settle, options_.mutation};
  return limits_.try_emplace(name, LeaseLedger(terms, options, label_)).first->second;
}

void Coordinator::SetTerms(const std::string& limit, const Terms& terms, WallTime now) {
  Advance(now);
  LimitOf(limit, terms);
}

void Coordinator::Forget(const std::string& limit, WallTime now) {
  Advance(now);
  const auto found = limits_.find(limit);
  if (found != limits_.end()) found->second.forget_from = label_ + 2 * kLongestLease;
}

Epoch Coordinator::Claim(WallTime now) {
  Advance(now);
  // The clock only matters when the log was lost or its tail is empty: numbers go up over that as well.
  const auto hand = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  claimed_ = std::max(
      {claimed_ + 1, fence_.in_force().value_or(0) + 1, static_cast<std::uint64_t>(std::max<decltype(hand)>(hand, 0))});
  phase_ = Phase::kClaiming;
  return {claimed_, options_.self, false};
}

void Coordinator::OnLog(const Epoch& epoch, WallTime now) {
  Advance(now);
  if (!fence_.Accept(epoch)) {
    // Another one was faster with the same number, or with a higher one.
    if (phase_ == Phase::kClaiming && epoch.owner == options_.self && epoch.number == claimed_ && !epoch.renewal) {
      phase_ = Phase::kFenced;
    }
    return;
  }
  if (phase_ == Phase::kClaiming && epoch.owner == options_.self && epoch.number == claimed_) {
    Lead();
  } else if (phase_ != Phase::kReading && epoch.number >= claimed_) {
    phase_ = Phase::kFenced;
  }
}

void Coordinator::Lead() {
  phase_ = Phase::kLeading;
  leading_from_ = planned_ = label_;
  if (options_.mutation == Mutation::kSuccessorWithoutReplay) {
    for (auto& [name, limit] : limits_) {
      limit.ledger = LeaseLedger(limit.ledger.terms(), {options_.length, options_.settle, options_.mutation}, label_);
    }
  }
}

void Coordinator::OnLog(const Grant& grant, WallTime now) {
  Advance(now);
  if (phase_ != Phase::kReading && phase_ != Phase::kClaiming) return;  // its own, counted when they were planned
  const bool certain = fence_.Accept(grant);
  if (!certain && fence_.in_force()) return;
  LimitOf(grant.limit, grant.terms).ledger.Replay(grant, certain);
}

void Coordinator::TakeDemand(Member& member, const LimitReport& report, Label heard) {
  const std::int64_t demand = std::clamp<std::int64_t>(report.demand, 0, kMostDemand);
  if (report.label > member.label) {
    member.demand_before = report.label == member.label + 1 ? member.demand : demand;
    member.demand = demand;
    member.label = report.label;
  } else if (report.label == member.label) {
    member.demand = std::max(member.demand, demand);
  } else {
    return;  // late
  }
  member.used_before = report.used_before;
  member.starved = report.starved && demand > 0;
  member.leaving = member.leaving || report.leaving;
  // An old report, read again by whoever has taken over, is no sign of life.
  member.heard = std::max(member.heard, std::min(heard, report.label + 1));
}

void Coordinator::OnReport(const Report& report, WallTime now) {
  Advance(now);
  if (phase_ != Phase::kLeading) return;
  for (const auto& of_limit : report.limits) {
    const auto found = limits_.find(of_limit.limit);
    if (found == limits_.end()) continue;
    Limit& limit = found->second;
    limit.changed = true;
    // First, or it would be among what has passed when this is the first word of a window.
    limit.ledger.ForgetBefore(label_);
    if (!limit.ledger.Hear(report.from, of_limit, report.claim)) {
      ++limit.senseless_reports;
      continue;
    }
    TakeDemand(limit.members[report.from], of_limit, label_);
  }
}

bool Coordinator::Live(const Limit& limit, Incarnation who, const Member& member) const {
  if (member.leaving || member.heard < label_ - options_.silent_after) return false;
  // Its clock stands far behind: it cannot use what is granted from here on.
  if (member.label < label_ - options_.length) return false;
  const auto holder = limit.ledger.holders().find(who);
  return holder != limit.ledger.holders().end() && !holder->second.left() && !holder->second.superseded();
}

bool Coordinator::AllHeard(const Limit& limit) const {
  return std::all_of(limit.ledger.holders().begin(), limit.ledger.holders().end(),
                     [&](const auto& holder) { return limit.members.contains(holder.first); });
}

void Coordinator::PlanLimit(const std::string& name, Limit& limit, std::vector<ControlRecord>& out) {
  std::erase_if(limit.members, [&](const auto& member) { return member.second.heard < label_ - kForgetMembers; });
  limit.settled = limit.settled || label_ >= leading_from_ + kPatience || AllHeard(limit);
  if (!limit.settled) return;
  limit.changed = false;

  std::vector<Wish> wishes;
  std::vector<Incarnation> who;
  bool urgent = false;
  for (const auto& [incarnation, member] : limit.members) {
    if (!Live(limit, incarnation, member)) continue;
    wishes.push_back({&limit.ledger.holders().at(incarnation), member.Demand()});
    who.push_back(incarnation);
    urgent = urgent || member.starved;
  }
  auto plan = PlanShares(limit.ledger, wishes, label_, label_ + options_.length, options_.mutation);
  for (std::size_t i = 0; i < who.size(); ++i) {
    if (!WorthSending(limit.ledger, *wishes[i].holder, label_, plan[i], urgent)) continue;
    Grant grant{name, who[i], {claimed_, ++sequence_}, label_, std::move(plan[i]), limit.ledger.terms()};
    if (!limit.ledger.MaySend(grant)) continue;
    limit.ledger.Send(grant);
    out.emplace_back(std::move(grant));
  }
}

std::vector<ControlRecord> Coordinator::Plan(WallTime now) {
  Advance(now);
  std::vector<ControlRecord> out;
  if (phase_ != Phase::kLeading) return out;
  const bool new_label = label_ > planned_;
  if (new_label) out.emplace_back(Epoch{claimed_, options_.self, true});
  planned_ = label_;
  std::erase_if(limits_, [&](const auto& limit) { return limit.second.forget_from.value_or(label_ + 1) <= label_; });
  for (auto& [name, limit] : limits_) {
    limit.ledger.ForgetBefore(label_);
    if (limit.forget_from) continue;
    if (new_label || limit.changed) PlanLimit(name, limit, out);
  }
  return out;
}

std::optional<Coordinator::LimitView> Coordinator::View(const std::string& name) const {
  const auto found = limits_.find(name);
  if (found == limits_.end()) return std::nullopt;
  const Limit& limit = found->second;
  LimitView view{limit.ledger.terms(),
                 limit.ledger.Total(label_),
                 limit.ledger.TotalExposure(label_),
                 limit.senseless_reports,
                 {}};
  for (const auto& [who, member] : limit.members) {
    MemberView shown;
    shown.who = who;
    shown.live = Live(limit, who, member);
    shown.starved = member.starved;
    if (const auto holder = limit.ledger.holders().find(who); holder != limit.ledger.holders().end()) {
      shown.share = limit.ledger.Last(holder->second, label_);
      shown.exposure = limit.ledger.Exposure(holder->second, label_);
    }
    shown.demand = member.Demand();
    shown.used_before = member.used_before;
    shown.last_label = member.label;
    view.members.push_back(shown);
  }
  return view;
}

}  // namespace posthorn::ratelimit
