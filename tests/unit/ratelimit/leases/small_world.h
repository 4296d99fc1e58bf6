#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "../testing.h"
#include "state_bytes.h"

// A world small enough to see all of it: two workers, two would-be coordinators, a few labels, one or two permits; and
// everything that can happen in it, in every order.
namespace posthorn::ratelimit::testing {

/// How much may happen. Within this, all of it does.
struct Scope {
  Mutation mutation = Mutation::kNone;
  std::string rate = "1/s";
  std::string later_rate;  // empty: it stays
  std::uint32_t slots = 0;
  bool moved = false;  // starts when worker 0 has just given up half of what it had to worker 1
  Label labels = 3;
  int length = 2;
  int deliveries = 4;  // of reports: any that any worker could have sent at any time, late, again, in any order
  int crashes = 1;     // of workers
  int takeovers = 1;   // coordinators started beside or after the first
  int losses = 1;      // of grants on their way to the log
  int copies = 0;      // of grants, written to the log again at any later time; with a loss: written late
};

class SmallWorld {
 public:
  explicit SmallWorld(const Scope& scope)
      : scope_(&scope),
        budget_{scope.deliveries, scope.crashes, scope.takeovers, scope.losses, scope.copies},
        fence_(scope.mutation) {
    for (std::uint32_t i = 0; i < 2; ++i) workers_[i] = StartWorker(i, kFirst - 20);
    Owner leader = StartOwner(0);
    Append(leader.state.Claim(StartOf(kFirst)));
    Read(leader, log_.size());
    Put(owners_[0], leader);
    Settle();
    if (!scope.moved) return;
    for (const auto& [heard, granted] : {std::pair{0, 0}, {1, 0}, {0, 1}}) {
      DeliverReport(static_cast<std::size_t>(heard));
      Worker worker = *workers_[static_cast<std::size_t>(granted)];
      ReadAll(worker);
      Put(workers_[static_cast<std::size_t>(granted)], worker);
      Settle();
    }
  }

  /// Every world that one event makes of this one. `visit(world, what)`.
  template <typename Visit>
  void Successors(Visit&& visit) const {
    for (std::uint32_t i = 0; i < 2; ++i) OfWorker(i, visit);
    if (budget_.copies > 0) OfLog(visit);
    for (std::uint32_t j = 0; j < 2; ++j) {
      if (owners_[j]) OfOwner(j, visit);
      if (budget_.takeovers > 0) TakeOver(j, visit);
    }
  }

  /// A label above the highest total that anybody went by in it.
  [[nodiscard]] bool Broken() const {
    auto used = used_;
    auto total = total_;
    for (const auto& worker : workers_) {
      const auto cap = worker->lease.CapAt(worker->counted);
      const auto at = static_cast<std::size_t>(worker->counted - kFirst);
      used[at] += std::max<std::int64_t>(0, cap.permits - worker->used);
      if (cap.source == Lease::Source::kFallback) {
        total[at] = std::max(total[at], worker->lease.terms().rate.Total(worker->counted));
      }
    }
    for (std::size_t w = 0; w < kLabels; ++w) {
      if (used[w] > total[w]) return true;
    }
    return false;
  }

  [[nodiscard]] StateBytes Fingerprint() const {
    StateBytes bytes;
    for (const auto& place : workers_) {
      bytes.Add(place->print);
      // A worker reads all there is: what it will hold then stands for all that it has not read.
      if (place->read == log_.size()) continue;
      Worker worker = *place;
      ReadAll(worker);
      worker.Print();
      bytes.Add(worker.print);
    }
    std::size_t unread = log_.size();
    for (const auto& owner : owners_) {
      bytes.Add(owner != nullptr);
      if (!owner) continue;
      bytes.Add(owner->print);
      bytes.Add(log_.size() - owner->read);
      unread = std::min(unread, owner->read);
    }
    AddLog(bytes, budget_.takeovers > 0 || budget_.copies > 0 ? 0 : unread);
    if (budget_.deliveries > 0) {
      for (const auto& report : mail_) bytes.Add(report->print);
    }
    for (std::size_t w = 0; w < kLabels; ++w) {
      bytes.Add(used_[w]);
      bytes.Add(total_[w]);
    }
    for (const int left : {budget_.deliveries, budget_.crashes, budget_.takeovers, budget_.losses, budget_.copies}) {
      bytes.Add(left);
    }
    return bytes;
  }

 private:
  static constexpr std::size_t kLabels = 4;
  static constexpr std::size_t kMemory = 2;  // reports of a worker under way
  static constexpr char kLimit[] = "limit";

  // Parts are shared between worlds: an event changes a copy of one of them.
  struct Worker {
    Lease lease;
    LogFence fence;
    Label clock = 0;
    std::size_t read = 0;
    Label counted = 0;
    std::int64_t used = 0;
    StateBytes print;
    void Print() {
      print = {};
      print.Add(lease);
      print.Add(fence);
      print.Add(clock);
      print.Add(counted);
      print.Add(used);
    }
  };
  struct Owner {
    Coordinator state;
    Label clock = 0;
    std::size_t read = 0;
    StateBytes print;
    void Print() {
      print = {};
      print.Add(state);
      print.Add(clock);
    }
  };
  template <typename Content>
  struct Sent {
    explicit Sent(Content sent) : content(std::move(sent)) { print.Add(content); }
    Content content;
    StateBytes print;
  };
  struct Budget {
    int deliveries, crashes, takeovers, losses, copies;
  };
  template <typename Part>
  static void Put(std::shared_ptr<const Part>& place, Part& part) {
    part.Print();
    place = std::make_shared<const Part>(std::move(part));
  }

  static WallTime Now(Label clock) { return StartOf(kFirst + clock); }
  [[nodiscard]] Terms TermsOf(std::uint64_t revision) const {
    return {Rate(revision == 1 ? scope_->rate : scope_->later_rate), scope_->slots, revision};
  }
  // Clocks are off by one label at most.
  [[nodiscard]] std::pair<Label, Label> Clocks() const {
    Label least = scope_->labels;
    Label most = 0;
    const auto see = [&](Label clock) {
      least = std::min(least, clock);
      most = std::max(most, clock);
    };
    for (const auto& worker : workers_) see(worker->clock);
    for (const auto& owner : owners_) {
      if (owner) see(owner->clock);
    }
    return {least, most};
  }
  [[nodiscard]] bool MayAdvance(Label clock) const { return clock + 1 < scope_->labels && clock <= Clocks().first; }

  std::shared_ptr<const Worker> StartWorker(std::uint32_t i, Label started) {
    Lease::Process process{++incarnations_, std::nullopt, started, scope_->length, 1, 0};
    if (scope_->slots > 0) process.slot = i;
    const Label clock = workers_[i] ? workers_[i]->clock : 0;
    Worker worker{
        Lease(kLimit, process, TermsOf(1), started < kFirst ? StartOf(started) : Now(clock), scope_->mutation),
        LogFence(scope_->mutation),
        clock,
        log_.size(),
        kFirst + clock,
        0,
        {}};
    worker.lease.Advance(Now(clock));
    for (const auto& record : log_) {
      if (const auto* epoch = std::get_if<Epoch>(&record->content)) worker.fence.Accept(*epoch);
    }
    std::shared_ptr<const Worker> place;
    Put(place, worker);
    return place;
  }
  Owner StartOwner(Label clock) {
    Owner owner{Coordinator({++incarnations_, scope_->length, 8, 0, scope_->mutation}), clock, 0, {}};
    owner.state.SetTerms(kLimit, TermsOf(1), Now(clock));
    return owner;
  }
  void Read(Owner& owner, std::size_t end) const {
    for (; owner.read < end; ++owner.read) {
      std::visit([&](const auto& record) { owner.state.OnLog(record, Now(owner.clock)); }, log_[owner.read]->content);
    }
  }

  // A coordinator starts, in the place of one that then is dead or beside it, and claims the log: having read all of
  // it, or not the newest EPOCH and what follows, so that two may claim the same number. Reading before is nothing that
  // anybody notices, and what it reads at last stands before its EPOCH anyway.
  template <typename Visit>
  void TakeOver(std::uint32_t j, Visit& visit) const {
    const auto newest = std::find_if(log_.rbegin(), log_.rend(),
                                     [](const auto& record) { return std::holds_alternative<Epoch>(record->content); });
    for (const Label clock : {Clocks().first, Clocks().second}) {
      for (const std::size_t read : {log_.size(), static_cast<std::size_t>(log_.rend() - newest) - 1}) {
        SmallWorld next = *this;
        --next.budget_.takeovers;
        Owner owner = next.StartOwner(clock);
        next.Read(owner, read);
        next.Append(owner.state.Claim(StartOf(kFirst)));
        next.Put(next.owners_[j], owner);
        next.Settle();
        visit(next, read == log_.size() ? "takeover" : "blind takeover");
      }
    }
  }

  // What worker `i` says now, with demand, to the first coordinator; and nothing of what it then writes is lost.
  void DeliverReport(std::size_t i) {
    const Worker& worker = *workers_[i];
    const auto& process = StateBytes::ProcessOf(worker.lease);
    Owner leader = *owners_[0];
    leader.state.OnReport({process.self, Lease::ClaimOf(process), {worker.lease.Report(worker.used, 0, 2, false)}},
                          Now(leader.clock));
    for (auto& record : leader.state.Plan(Now(leader.clock))) {
      const auto* grant = std::get_if<Grant>(&record);
      if (grant == nullptr) continue;
      for (Label w = grant->first; w < grant->end(); ++w) GoneBy(w, grant->terms);
      Append(*grant);
    }
    Put(owners_[0], leader);
    Settle();
  }

  // Any change to one worker.
  template <typename Visit, typename Change>
  void WithWorker(std::uint32_t i, Visit& visit, const char* what, Change&& change) const {
    SmallWorld next = *this;
    Worker worker = *workers_[i];
    change(next, worker);
    if (worker.lease.label() > worker.counted) {
      worker.counted = worker.lease.label();
      worker.used = 0;
    }
    Put(next.workers_[i], worker);
    next.Settle();
    visit(next, what);
  }

  void ReadOne(Worker& worker) const {
    const ControlRecord& record = log_[worker.read++]->content;
    if (const auto* epoch = std::get_if<Epoch>(&record)) {
      worker.fence.Accept(*epoch);
    } else if (const auto& grant = std::get<Grant>(record); worker.fence.Accept(grant)) {
      worker.lease.Accept(grant, Now(worker.clock));
    }
  }
  void ReadAll(Worker& worker) const {
    while (worker.read < log_.size()) ReadOne(worker);
  }

  void Spend(Worker& worker, std::int64_t permits) {
    if (permits <= 0) return;
    worker.used += permits;
    used_[static_cast<std::size_t>(worker.counted - kFirst)] += permits;
    const auto cap = worker.lease.CapAt(worker.counted);
    if (cap.source == Lease::Source::kFallback) GoneBy(worker.counted, worker.lease.terms());
  }
  void SpendAll(Worker& worker) { Spend(worker, worker.lease.CapAt(worker.counted).permits - worker.used); }

  // Permits are spent when it matters: right before what the worker may use or what it reports changes. Until then a
  // report says the same whether they are spent or not; and whoever can break the total by spending has broken it.
  template <typename Visit>
  void OfWorker(std::uint32_t i, Visit& visit) const {
    const Worker& now = *workers_[i];
    if (MayAdvance(now.clock)) {
      WithWorker(i, visit, "worker's clock", [](SmallWorld& next, Worker& worker) {
        next.SpendAll(worker);
        worker.lease.Advance(Now(++worker.clock));
      });
    }
    const std::int64_t most = std::max<std::int64_t>(0, now.lease.CapAt(now.lease.label()).permits - now.used);
    for (std::int64_t spent = 0; spent <= most; ++spent) {
      if (now.read < log_.size()) {
        WithWorker(i, visit, spent > 0 ? "worker spends and reads" : "worker reads",
                   [&](SmallWorld& next, Worker& worker) {
                     next.Spend(worker, spent);
                     next.ReadAll(worker);
                   });
      }
      if (!scope_->later_rate.empty() && now.lease.terms().revision == 1) {
        WithWorker(i, visit, spent > 0 ? "worker spends and learns" : "worker learns",
                   [&](SmallWorld& next, Worker& worker) {
                     next.Spend(worker, spent);
                     worker.lease.SetTerms(next.TermsOf(2), Now(worker.clock));
                   });
      }
    }
    if (budget_.crashes > 0) {
      SmallWorld next = *this;
      --next.budget_.crashes;
      Worker worker = now;
      next.SpendAll(worker);
      next.workers_[i] = next.StartWorker(i, now.lease.label());
      next.Settle();
      visit(next, "worker restarts");
    }
  }

  template <typename Visit>
  void OfLog(Visit& visit) const {
    for (const auto& sent : log_) {
      const auto* grant = std::get_if<Grant>(&sent->content);
      if (grant == nullptr) continue;
      SmallWorld next = *this;
      --next.budget_.copies;
      next.Append(*grant);
      next.Settle();
      visit(next, "grant again");
    }
  }

  template <typename Visit>
  void OfOwner(std::uint32_t j, Visit& visit) const {
    const Owner& now = *owners_[j];
    if (MayAdvance(now.clock)) Planning(j, visit, "coordinator's clock", [](Owner& owner) { ++owner.clock; });
    if (now.read < log_.size()) {
      Planning(j, visit, "coordinator reads", [&](Owner& owner) { Read(owner, log_.size()); });
    }
    if (now.state.phase() != Coordinator::Phase::kLeading) return;
    if (!scope_->later_rate.empty()) {
      Planning(j, visit, "coordinator learns",
               [&](Owner& owner) { owner.state.SetTerms(kLimit, TermsOf(2), Now(owner.clock)); });
    }
    if (budget_.deliveries == 0) return;
    for (const auto& sent : mail_) {
      for (const std::int64_t demand : {std::int64_t{0}, std::int64_t{2}}) {
        Report report = sent->content;
        report.limits.front().demand = demand;
        Planning(
            j, visit, demand > 0 ? "report with demand" : "report without demand",
            [&](Owner& owner) { owner.state.OnReport(report, Now(owner.clock)); }, 1);
      }
    }
  }

  // A coordinator plans after whatever it hears, and appends what it has planned, all or all but one grant. A delay
  // in between is nothing new: what it does meanwhile reaches others through the log alone, so it is the same as a
  // coordinator that hears late.
  template <typename Visit, typename Change>
  void Planning(std::uint32_t j, Visit& visit, const char* what, Change&& change, int deliveries = 0) const {
    Owner owner = *owners_[j];
    change(owner);
    owner.Print();
    if (owner.print == owners_[j]->print && owner.read == owners_[j]->read) return;
    std::vector<Grant> grants;
    for (auto& record : owner.state.Plan(Now(owner.clock))) {
      // A repeated EPOCH tells readers of the whole log nothing.
      if (auto* grant = std::get_if<Grant>(&record)) grants.push_back(std::move(*grant));
    }
    SmallWorld planned = *this;
    planned.budget_.deliveries -= deliveries;
    Put(planned.owners_[j], owner);
    for (const Grant& grant : grants) {
      for (Label w = grant.first; w < grant.end(); ++w) planned.GoneBy(w, grant.terms);
    }
    const int outcomes = budget_.losses > 0 ? static_cast<int>(grants.size()) : 0;
    for (int lost = -1; lost < outcomes; ++lost) {
      SmallWorld next = planned;
      for (int i = 0; i < static_cast<int>(grants.size()); ++i) {
        if (i != lost) next.Append(grants[static_cast<std::size_t>(i)]);
      }
      if (lost >= 0) --next.budget_.losses;
      next.Settle();
      visit(next, what);
    }
  }

  // Every reader comes to a record with the same records before it: what the fence refuses here nobody takes.
  void Append(ControlRecord record) {
    if (const auto* epoch = std::get_if<Epoch>(&record)) fence_.Accept(*epoch);
    if (const auto* grant = std::get_if<Grant>(&record); grant != nullptr && !fence_.Accept(*grant)) return;
    log_.push_back(std::make_shared<const Sent<ControlRecord>>(std::move(record)));
  }

  // What the log says to those who have yet to read from `from` on.
  void AddLog(StateBytes& bytes, std::size_t from) const {
    const Label passed = kFirst + Clocks().first;
    std::map<Incarnation, GrantId> newest;
    for (; from < log_.size(); ++from) {
      const auto* grant = std::get_if<Grant>(&log_[from]->content);
      if (grant == nullptr || grant->end() > passed || scope_->slots > 0) {
        bytes.Add(log_[from]->print);
      } else {
        // Of labels that have passed only the number counts.
        newest[grant->to] = std::max(newest[grant->to], grant->id);
      }
    }
    for (const auto& [to, id] : newest) {
      bytes.Add(to);
      bytes.Add(id);
    }
  }

  // What a worker says now and what it said last may arrive at any time, and again.
  void Mail(const Worker& worker) {
    const auto& process = StateBytes::ProcessOf(worker.lease);
    Sent<Report> sent({process.self, Lease::ClaimOf(process), {worker.lease.Report(worker.used, 0, 0, false)}});
    std::size_t of_worker = 0;
    for (const auto& earlier : mail_) {
      if (earlier->print == sent.print) return;
      of_worker += earlier->content.from == process.self ? 1U : 0U;
    }
    if (of_worker >= kMemory) {
      mail_.erase(std::find_if(mail_.begin(), mail_.end(),
                               [&](const auto& earlier) { return earlier->content.from == process.self; }));
    }
    mail_.push_back(std::make_shared<const Sent<Report>>(std::move(sent)));
  }

  // What makes no difference any more is made equal.
  void Settle() {
    for (auto& place : workers_) {
      Mail(*place);
      // A worker that comes to an EPOCH does nothing else.
      const auto of_others = [&](const ControlRecord& record) {
        const auto* grant = std::get_if<Grant>(&record);
        return grant == nullptr || grant->to != StateBytes::ProcessOf(place->lease).self;
      };
      if (place->read >= log_.size() || !of_others(log_[place->read]->content)) continue;
      Worker worker = *place;
      while (worker.read < log_.size() && of_others(log_[worker.read]->content)) ReadOne(worker);
      Put(place, worker);
    }
    for (auto& place : owners_) {
      if (!place) continue;
      const auto phase = place->state.phase();
      // Nobody will take what it grants: as good as dead.
      Grant grant;
      grant.id.epoch = place->state.epoch();
      if (phase == Coordinator::Phase::kFenced || !fence_.Accept(grant)) {
        place = nullptr;
        continue;
      }
      if (phase != Coordinator::Phase::kLeading) continue;
      const auto is_grant = [&](std::size_t at) { return std::holds_alternative<Grant>(log_[at]->content); };
      if (place->read >= log_.size() || !is_grant(place->read)) continue;
      Owner owner = *place;
      while (owner.read < log_.size() && is_grant(owner.read)) ++owner.read;
      Put(place, owner);
    }
    const Label passed = std::min(workers_[0]->lease.label(), workers_[1]->lease.label());
    for (Label w = kFirst; w < passed; ++w) {
      const auto at = static_cast<std::size_t>(w - kFirst);
      if (used_[at] <= total_[at]) used_[at] = total_[at] = 0;
    }
  }

  void GoneBy(Label w, const Terms& terms) {
    const auto at = static_cast<std::size_t>(w - kFirst);
    if (at < kLabels) total_[at] = std::max(total_[at], terms.rate.Total(w));
  }

  const Scope* scope_;
  Budget budget_;
  LogFence fence_;  // of the whole log
  Incarnation incarnations_ = 0;
  std::array<std::shared_ptr<const Worker>, 2> workers_;
  std::array<std::shared_ptr<const Owner>, 2> owners_;
  std::vector<std::shared_ptr<const Sent<ControlRecord>>> log_;
  std::vector<std::shared_ptr<const Sent<Report>>> mail_;
  std::array<std::int64_t, kLabels> used_{};
  std::array<std::int64_t, kLabels> total_{};
};

}  // namespace posthorn::ratelimit::testing
