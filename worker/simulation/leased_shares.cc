#include "worker/simulation/leased_shares.h"

#include <algorithm>
#include <utility>

namespace posthorn::simulation {
namespace {

using ratelimit::ControlRecord;
using ratelimit::Coordinator;
using ratelimit::Epoch;
using ratelimit::Grant;
using ratelimit::Incarnation;
using ratelimit::kWindow;
using ratelimit::LabelAt;

constexpr int kTailWindows = 8;  // beyond a lease's length, as worker/fleet/coordinator_seat.h keeps it

ratelimit::Terms TermsOf(const ratelimit::Plan& plan) {
  const auto& dealing = std::get<ratelimit::LeaseDealing>(plan.dealing);
  return {plan.rate, dealing.slots, dealing.revision};
}

}  // namespace

LeasedShares::LeasedShares(const Scenario& scenario, Random& random, WallTime begin, CpuTime cpu_time)
    : scenario_(scenario),
      random_(random),
      network_(scenario.network),
      workers_(scenario.workers.size()),
      cpu_time_(std::move(cpu_time)) {
  const auto slots = scenario.fall_back_to_slots ? static_cast<std::uint32_t>(scenario.workers.size()) : 0;
  plan_ = {scenario.max_rate, scenario.smooth ? ratelimit::Burst::kSmooth : ratelimit::Burst::kAtOnce,
           ratelimit::LeaseDealing{slots, 1}};
  mail_.Post(begin, NextCoordinator{});
}

template <typename Work>
auto LeasedShares::Measured(const Work& work) {
  if (!cpu_time_) return work();
  const Nanoseconds before = cpu_time_();
  auto result = work();
  planning_time_ += cpu_time_() - before;
  return result;
}

void LeasedShares::Start(std::size_t i, WallTime now) {
  ratelimit::Lease::Process process;
  process.self = random_.Bits();
  if (scenario_.fall_back_to_slots) process.slot = static_cast<std::uint32_t>(i);
  process.started = LabelAt(Local(i, now));
  process.length = scenario_.lease;
  workers_[i] = std::make_unique<LeasedWorker>(process, plan_, random_.Unit(), Local(i, now));
  running_[process.self] = i;
  // The log's tail: no grant there is for a process that has just begun.
  for (const Logged& logged : log_) {
    if (std::holds_alternative<Epoch>(*logged.record)) LetRead(process.self, logged.record, now);
  }
}

void LeasedShares::Stop(std::size_t i, bool graceful, WallTime now) {
  if (graceful) Send(workers_[i]->Leave(Local(i, now)), now);
  running_.erase(workers_[i]->self());
  read_until_.erase(workers_[i]->self());
  workers_[i].reset();
}

void LeasedShares::SetMaxRate(const MaxRate& rate, WallTime now) {
  plan_.rate = rate;
  ++std::get<ratelimit::LeaseDealing>(plan_.dealing).revision;
  const auto tell = [&](Incarnation reader) {
    mail_.Post(now + random_.In(Nanoseconds(0), scenario_.config_delay), NewPlan{reader, plan_});
  };
  for (const auto& worker : workers_) {
    if (worker) tell(worker->self());
  }
  if (coordinator_) tell(coordinator_self_);
}

void LeasedShares::KillCoordinator(WallTime now) {
  coordinator_.reset();
  read_until_.erase(coordinator_self_);
  mail_.Post(now + scenario_.takeover, NextCoordinator{});
}

void LeasedShares::Open(const NextCoordinator& /*letter*/, WallTime now) {
  if (!coordinator_) StartCoordinator(now);
}

void LeasedShares::StartCoordinator(WallTime now) {
  Coordinator::Options options;
  options.self = coordinator_self_ = random_.Bits();
  options.length = scenario_.lease;
  coordinator_clock_ = random_.In(-scenario_.clock_offset, scenario_.clock_offset);
  early_.clear();
  coordinator_ = std::make_unique<Coordinator>(options);
  coordinator_->SetTerms(kLimit, TermsOf(plan_), CoordinatorTime(now));
  for (const Logged& logged : log_) {
    std::visit([&](const auto& record) { coordinator_->OnLog(record, CoordinatorTime(now)); }, *logged.record);
  }
  read_until_[coordinator_self_] = now;
  Claim(now);
}

void LeasedShares::Claim(WallTime now) {
  Append(coordinator_->Claim(CoordinatorTime(now)), now);
  mail_.Post(now + kWindow, ClaimAgain{coordinator_self_});
}

// The claim may have been lost.
void LeasedShares::Open(const ClaimAgain& letter, WallTime now) {
  if (coordinator_ && letter.by == coordinator_self_ && coordinator_->phase() == Coordinator::Phase::kClaiming) {
    Claim(now);
  }
}

void LeasedShares::Send(ratelimit::Report report, WallTime now) {
  if (random_.Chance(network_.repeated)) mail_.Post(now + DelayOf(network_, random_), ToCoordinator{report});
  if (random_.Chance(network_.loss)) return;
  mail_.Post(now + DelayOf(network_, random_), ToCoordinator{std::move(report)});
}

void LeasedShares::Append(ControlRecord record, WallTime now) {
  if (random_.Chance(network_.loss)) return;
  mail_.Post(now + DelayOf(network_, random_), ToLog{std::make_shared<const ControlRecord>(std::move(record))});
}

void LeasedShares::Open(const ToCoordinator& letter, WallTime now) {
  if (!coordinator_) return;
  if (coordinator_->phase() == Coordinator::Phase::kLeading) {
    Hear(letter.report, now);
  } else {
    early_.insert_or_assign(letter.report.from, letter.report);
  }
}

void LeasedShares::Hear(const ratelimit::Report& report, WallTime now) {
  reported_ = Measured([&] {
    coordinator_->OnReport(report, CoordinatorTime(now));
    return true;
  });
}

void LeasedShares::Open(const ToLog& letter, WallTime now) {
  const WallTime tail = now - (scenario_.lease + kTailWindows) * kWindow;
  while (!log_.empty() && log_.front().at < tail) log_.pop_front();
  log_.push_back({now, letter.record});
  if (coordinator_) LetRead(coordinator_self_, letter.record, now);
  if (const auto* grant = std::get_if<Grant>(letter.record.get())) {
    // Everybody reads it; it means something to one.
    if (running_.contains(grant->to)) LetRead(grant->to, letter.record, now);
    return;
  }
  for (const auto& [reader, worker] : running_) LetRead(reader, letter.record, now);
}

void LeasedShares::LetRead(Incarnation reader, const Record& record, WallTime now) {
  WallTime& until = read_until_[reader];
  until = std::max(until, now + DelayOf(network_, random_));
  mail_.Post(until, ToReader{reader, record});
}

void LeasedShares::Open(const ToReader& letter, WallTime now) {
  if (coordinator_ && letter.reader == coordinator_self_) {
    std::visit([&](const auto& record) { coordinator_->OnLog(record, CoordinatorTime(now)); }, *letter.record);
    if (coordinator_->phase() == Coordinator::Phase::kLeading) {
      for (const auto& [who, report] : std::exchange(early_, {})) Hear(report, now);
    }
    return;
  }
  const auto running = running_.find(letter.reader);
  if (running == running_.end()) return;
  LeasedWorker& worker = *workers_[running->second];
  if (const auto* epoch = std::get_if<Epoch>(letter.record.get())) {
    worker.OnLog(*epoch);
  } else {
    worker.OnLog(std::get<Grant>(*letter.record), Local(running->second, now));
  }
}

void LeasedShares::Open(const NewPlan& letter, WallTime now) {
  if (coordinator_ && letter.reader == coordinator_self_) {
    coordinator_->SetTerms(kLimit, TermsOf(letter.plan), CoordinatorTime(now));
    reported_ = true;
  } else if (const auto running = running_.find(letter.reader); running != running_.end()) {
    workers_[running->second]->SetPlan(letter.plan, Local(running->second, now));
  }
}

void LeasedShares::Advance(WallTime now) {
  mail_.DeliverUntil(now, [this](const Letter& letter, WallTime due) {
    std::visit([&](const auto& opened) { Open(opened, due); }, letter);
  });
  if (!coordinator_) return;
  if (coordinator_->phase() == Coordinator::Phase::kFenced) {
    StartCoordinator(now);
    return;
  }
  const bool due = reported_ && now - planned_ >= scenario_.plan_every;
  if (!due && LabelAt(CoordinatorTime(now)) <= LabelAt(CoordinatorTime(planned_))) return;
  for (ControlRecord& record : Measured([&] { return coordinator_->Plan(CoordinatorTime(now)); })) {
    if (const auto* grant = std::get_if<Grant>(&record)) {
      for (Label w = grant->first; w < grant->end(); ++w) GoneBy(w, grant->terms.rate);
    }
    Append(std::move(record), now);
  }
  planned_ = now;
  reported_ = false;
}

Started LeasedShares::Take(std::size_t i, const Load& load, WallTime now) {
  LeasedWorker& worker = *workers_[i];
  const Started started = worker.Take(load, Local(i, now));
  if (started.sent > 0 && worker.FallsBack(Local(i, now))) GoneBy(started.label, worker.rate());
  const Load left{load.backlog - started.sent, load.room - started.sent, load.pace};
  if (auto report = worker.ReportDue(left, Local(i, now))) Send(std::move(*report), now);
  return started;
}

double LeasedShares::Share(std::size_t i, WallTime now) {
  return workers_[i] ? static_cast<double>(workers_[i]->PartialLimit(Local(i, now))) : 0;
}

void LeasedShares::GoneBy(Label w, const MaxRate& rate) {
  std::int64_t& total = shared_out_[w];
  total = std::max(total, rate.Total(w));
}

std::optional<std::int64_t> LeasedShares::SharedOut(Label w) const {
  const auto found = shared_out_.find(w);
  return found != shared_out_.end() ? found->second : 0;
}

std::optional<Nanoseconds> LeasedShares::PlanningTime() const {
  return cpu_time_ ? std::optional(planning_time_) : std::nullopt;
}

}  // namespace posthorn::simulation
