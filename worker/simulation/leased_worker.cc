#include "worker/simulation/leased_worker.h"

#include <algorithm>
#include <variant>

namespace posthorn::simulation {

using ratelimit::LabelAt;
using ratelimit::Limiter;
using ratelimit::StartOf;
using std::chrono::milliseconds;

namespace {

constexpr Nanoseconds kLook = milliseconds(50);
constexpr Nanoseconds kRegular = milliseconds(600);
constexpr Nanoseconds kBetweenReports = milliseconds(100);

std::uint64_t RevisionOf(const ratelimit::Plan& plan) {
  return std::get<ratelimit::LeaseDealing>(plan.dealing).revision;
}

}  // namespace

LeasedWorker::LeasedWorker(const ratelimit::Lease::Process& process, const ratelimit::Plan& plan, double phase,
                           WallTime now)
    : process_(process),
      plan_(plan),
      limiter_(plan, {ratelimit::Timing(), phase, Limiter::ByLease{kLimit, process}}, now),
      look_at_(now + Nanoseconds(static_cast<Nanoseconds::rep>(phase * static_cast<double>(kLook.count())))) {}

void LeasedWorker::OnLog(const ratelimit::Epoch& epoch) {
  // A new coordinator waits for everybody's word.
  if (fence_.Accept(epoch)) report_now_ = true;
}

void LeasedWorker::OnLog(const ratelimit::Grant& grant, WallTime now) {
  if (!fence_.Accept(grant)) return;
  if (limiter_.Accept(grant, now).less) report_now_ = true;
}

void LeasedWorker::SetPlan(const ratelimit::Plan& plan, WallTime now) {
  if (RevisionOf(plan) <= RevisionOf(plan_)) return;
  plan_ = plan;
  limiter_.SetPlan(plan, now);
}

Started LeasedWorker::Take(const Load& load, WallTime now) {
  Started started;
  while (started.sent < load.Ready()) {
    const auto decision = limiter_.Acquire(now, Nanoseconds(0));
    const auto* admitted = std::get_if<ratelimit::Admitted>(&decision);
    if (admitted == nullptr) break;
    started.label = admitted->label;
    ++started.sent;
  }
  return started;
}

void LeasedWorker::Look(const Load& load, WallTime now) {
  look_at_ = now + kLook;
  const Label label = LabelAt(now);
  const std::int64_t left = limiter_.PartialLimit(now) - limiter_.UsedIn(label);
  demand_ = load.Demand();
  starved_ = load.Ready() > std::max<std::int64_t>(left, 0);
  if (!starved_) return;
  // What the coordinator knows already needs no haste.
  const std::int64_t total = plan_.rate.Total(label);
  const bool more = std::min(demand_, total) > std::min(told_demand_, total);
  if (!told_starved_ || more) report_now_ = true;
}

std::optional<ratelimit::Report> LeasedWorker::ReportDue(const Load& load, WallTime now) {
  if (now >= look_at_) Look(load, now);
  const Label label = LabelAt(now);
  const bool regular = reported_in_ < label && now >= StartOf(label) + kRegular;
  if (!regular && !(report_now_ && now >= reported_at_ + kBetweenReports)) return std::nullopt;
  if (regular) reported_in_ = label;
  report_now_ = false;
  reported_at_ = now;
  told_demand_ = demand_;
  told_starved_ = starved_;
  return MakeReport(now);
}

ratelimit::Report LeasedWorker::Leave(WallTime now) {
  limiter_.Leave(now);
  return MakeReport(now);
}

ratelimit::Report LeasedWorker::MakeReport(WallTime now) {
  ratelimit::Report report{process_.self, ratelimit::Lease::ClaimOf(process_), {}};
  report.limits.push_back(limiter_.Report(demand_, starved_, now));
  return report;
}

}  // namespace posthorn::simulation
