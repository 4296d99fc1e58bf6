#include "worker/fleet/coordinator_seat.h"

#include <algorithm>
#include <utility>

namespace posthorn::fleet {
namespace {

using ratelimit::Coordinator;
using ratelimit::Label;
using runtime::WallTime;
using std::chrono::milliseconds;

constexpr Label kTail = 8;  // windows beyond a lease's length
constexpr auto kClaimAgain = std::chrono::seconds(1);
constexpr auto kAfterFencing = std::chrono::seconds(2);
constexpr auto kBetweenPlans = milliseconds(20);
constexpr Label kForgetNames = 120;
constexpr std::size_t kMostEarly = 100'000;

}  // namespace

CoordinatorSeat::CoordinatorSeat(Parts parts) : parts_(std::move(parts)), random_(parts_.seed) {}

void CoordinatorSeat::OnLog(std::string_view bytes, const LogMessage& message, WallTime now) {
  tail_.push_back({now, std::string(bytes)});
  while (tail_.front().came < now - (parts_.length + kTail) * ratelimit::kWindow) tail_.pop_front();
  if (!coordinator_) return;
  Read(message, now);
  if (coordinator_->phase() == Coordinator::Phase::kLeading && !led_) Lead(now);
}

void CoordinatorSeat::Read(const LogMessage& message, WallTime now) {
  for (const auto& record : message.records) {
    std::visit([&](const auto& what) { coordinator_->OnLog(what, now); }, record);
    const auto* grant = std::get_if<ratelimit::Grant>(&record);
    if (grant == nullptr || led_) continue;
    auto& highest = granted_by_.try_emplace(grant->limit, grant->terms).first->second;
    if (highest.rate < grant->terms.rate) highest = grant->terms;
  }
}

void CoordinatorSeat::SetOwned(bool owned, WallTime now) {
  if (owned == owned_) return;
  owned_ = owned;
  try_again_ = now;
  if (!owned) End();
}

void CoordinatorSeat::End() {
  coordinator_.reset();
  plan_at_.reset();
  early_.clear();
  names_.clear();
  audit_ = {};
}

void CoordinatorSeat::SetTerms(const std::string& limit, const ratelimit::Terms& terms, WallTime now) {
  auto& known = terms_[limit];
  if (known == terms) return;
  known = terms;
  if (!coordinator_) return;
  auto newer = terms;
  // Whoever granted before may have learned of something older later.
  if (const auto view = coordinator_->View(limit)) newer.revision = std::max(newer.revision, view->terms.revision + 1);
  coordinator_->SetTerms(limit, newer, now);
  audit_.SetTerms(limit, terms, coordinator_->label());
  plan_at_ = now;
}

void CoordinatorSeat::Forget(const std::string& limit, WallTime now) {
  if (terms_.erase(limit) == 0) return;
  if (coordinator_) coordinator_->Forget(limit, now);
  audit_.Forget(limit);
}

void CoordinatorSeat::Begin(WallTime now) {
  Coordinator::Options options;
  options.self = random_();
  options.length = parts_.length;
  coordinator_.emplace(options);
  led_ = false;
  granted_by_.clear();
  for (const auto& [limit, terms] : terms_) coordinator_->SetTerms(limit, terms, now);
  for (const auto& kept : tail_) {
    const auto decoded = DecodeLog(kept.bytes);
    const auto* message = std::get_if<LogMessage>(&decoded);
    if (message != nullptr) Read(*message, now);
  }
  claimed_ = now;
  parts_.append({coordinator_->Claim(now)});
}

/// What the configuration says here counts from now on, whatever was learned later by whoever granted before.
void CoordinatorSeat::Lead(WallTime now) {
  led_ = true;
  for (const auto& [limit, terms] : terms_) {
    // The totals that leases granted before go by still count.
    if (const auto granted = granted_by_.find(limit); granted != granted_by_.end()) {
      audit_.SetTerms(limit, granted->second, coordinator_->label());
    }
    audit_.SetTerms(limit, terms, coordinator_->label());
    const auto view = coordinator_->View(limit);
    if (!view || view->terms.SameFrom(coordinator_->label(), terms)) continue;
    auto newer = terms;
    newer.revision = std::max(newer.revision, view->terms.revision + 1);
    coordinator_->SetTerms(limit, newer, now);
  }
  granted_by_.clear();
  for (const auto& [who, message] : std::exchange(early_, {})) OnReport(message, now);
  plan_at_ = now;
}

void CoordinatorSeat::OnReport(const ReportMessage& message, WallTime now) {
  if (!coordinator_ || coordinator_->phase() != Coordinator::Phase::kLeading) {
    if (owned_ && early_.size() < kMostEarly) early_.insert_or_assign(message.report.from, message);
    return;
  }
  coordinator_->OnReport(message.report, now);
  names_[message.report.from] = {message.sender, coordinator_->label()};
  for (const auto& limit : message.report.limits) audit_.Hear(message.report.from, limit, coordinator_->label());
  if (!plan_at_) plan_at_ = std::max(now, planned_ + kBetweenPlans);
}

void CoordinatorSeat::Plan(WallTime now) {
  planned_ = now;
  plan_at_.reset();
  auto records = coordinator_->Plan(now);
  if (!records.empty()) parts_.append(std::move(records));
}

WallTime CoordinatorSeat::Tick(WallTime now) {
  if (!owned_ || !at_end_) return WallTime::max();
  if (coordinator_ && coordinator_->phase() == Coordinator::Phase::kFenced) {
    End();
    try_again_ = now + kAfterFencing;
  }
  if (!coordinator_) {
    if (now < try_again_) return try_again_;
    Begin(now);
  }
  if (coordinator_->phase() == Coordinator::Phase::kClaiming) {
    if (now >= claimed_ + kClaimAgain) {
      claimed_ = now;
      parts_.append({coordinator_->Claim(now)});
    }
    return claimed_ + kClaimAgain;
  }
  const Label before = coordinator_->label();
  if (ratelimit::LabelAt(now) > before || ratelimit::LabelAt(now) > ratelimit::LabelAt(planned_) ||
      (plan_at_ && now >= *plan_at_)) {
    Plan(now);
    above_total_ += audit_.Close(coordinator_->label());
    std::erase_if(names_, [&](const auto& name) { return name.second.heard < coordinator_->label() - kForgetNames; });
  }
  const WallTime next_window = ratelimit::StartOf(coordinator_->label() + 1);
  return plan_at_ ? std::min(*plan_at_, next_window) : next_window;
}

std::string CoordinatorSeat::NameOf(ratelimit::Incarnation who) const {
  const auto found = names_.find(who);
  return found == names_.end() ? std::string() : found->second.instance;
}

}  // namespace posthorn::fleet
