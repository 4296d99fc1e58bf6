#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../testing.h"
#include "ratelimit/leases/coordinator.h"
#include "ratelimit/leases/lease.h"

// A fleet under leases in a world that loses, repeats, delays and reorders everything but the log, whose actors stop
// for long, die and start again, whose clocks are off by up to a window, and in which several coordinators believe that
// they lead. Time is a number of ticks.
namespace posthorn::ratelimit::testing {

struct LeaseFleet {
  Mutation mutation = Mutation::kNone;
  bool terms_change = true;
  bool slots = true;      // in every second history
  bool takeovers = true;  // more than the first coordinator
};

class LeaseHistory {
 public:
  LeaseHistory(Random& random, const LeaseFleet& fleet) : random_(random), fleet_(fleet) {
    workers_.resize(static_cast<std::size_t>(random_.Of(std::vector<int>{2, 3, 5, 8})));
    length_ = random_.Of(std::vector<int>{1, 2, 4, 8});
    patience_ = random_.In(1, 4);
    if (fleet_.slots && random_.OneIn(2))
      slots_ = static_cast<std::uint32_t>(workers_.size()) + (random_.OneIn(3) ? 1 : 0);
    const bool steady = !fleet_.terms_change || random_.OneIn(4);
    for (std::int64_t at = 0; at < kEnd; at += random_.In(kTicks, 8 * kTicks)) {
      book_.push_back({at, {SomeRate(), slots_, book_.size() + 1}});
      if (steady) break;
    }
  }

  /// nullopt: no label above the total that somebody went by.
  std::optional<std::string> Run() {
    for (std::uint32_t k = 0; k < workers_.size(); ++k) {
      workers_[k].old_version = slots_ > 0 && book_.size() == 1 && random_.OneIn(4);
      if (!random_.OneIn(4)) StartWorker(k);
    }
    coordinators_.resize(fleet_.takeovers ? 3 : 1);
    StartCoordinator(coordinators_[0]);
    for (tick_ = 0; tick_ < kEnd; ++tick_) {
      Arrive();
      for (auto& coordinator : coordinators_) StepCoordinator(coordinator);
      for (std::uint32_t k = 0; k < workers_.size(); ++k) StepWorker(k);
    }
    for (const auto& [label, used] : used_) {
      if (used <= total_[label]) continue;
      std::ostringstream out;
      out << "label " << label - kFirst << ": " << used << " permits of " << total_[label] << " (" << workers_.size()
          << " workers, leases of " << length_ << ", slots " << slots_ << ")";
      return out.str();
    }
    return std::nullopt;
  }

  [[nodiscard]] std::int64_t Spent() const {
    std::int64_t sum = 0;
    for (const auto& [label, used] : used_) sum += used;
    return sum;
  }

 private:
  static constexpr std::int64_t kTicks = 8;  // of a window
  static constexpr std::int64_t kEnd = 26 * kTicks;
  static constexpr int kClockLabels = 2;  // clocks off by up to one window each way
  static constexpr int kSettle = 4;
  static constexpr char kLimit[] = "limit";

  struct Known {
    std::int64_t published;
    Terms terms;
  };
  struct Actor {
    std::int64_t offset = 0;
    std::int64_t learns_after = 0;
    std::int64_t asleep_until = 0;
    std::size_t read = 0;  // records of the log
  };
  struct Worker : Actor {
    bool old_version = false;  // uses its slot, knows nothing of leases
    std::unique_ptr<Lease> lease;
    Lease::Process process;
    LogFence fence;
    Label counted = 0;
    std::int64_t used = 0;
    std::int64_t used_before = 0;
    std::int64_t demand = 0;
    Label first_label = 0;  // of an old version
    std::unique_ptr<SlotShares> slot;
  };
  struct Owner : Actor {
    std::unique_ptr<Coordinator> state;
    std::int64_t claimed_at = 0;
  };
  struct Append {
    std::int64_t due;
    ControlRecord record;
  };
  struct Mail {
    std::int64_t due;
    std::size_t to;
    Report report;
  };

  MaxRate SomeRate() {
    return random_.OneIn(2) ? random_.Of(SomeRates()) : Rate(std::to_string(random_.In(1, 7)) + "/s");
  }
  [[nodiscard]] WallTime Clock(const Actor& actor) const { return At((tick_ + actor.offset) * (kWindow / kTicks)); }
  [[nodiscard]] Terms KnownTo(const Actor& actor) const {
    Terms known = book_.front().terms;
    for (const auto& entry : book_) {
      if (entry.published + actor.learns_after <= tick_) known = entry.terms;
    }
    return known;
  }
  [[nodiscard]] std::size_t Tail() const {
    const auto from = tick_ - (length_ + 4) * kTicks;
    return static_cast<std::size_t>(
        std::partition_point(appended_.begin(), appended_.end(), [&](std::int64_t at) { return at < from; }) -
        appended_.begin());
  }
  void Place(Actor& actor) {
    actor.offset = random_.OneIn(3) ? 0 : random_.In(-kTicks, kTicks);
    // With slots everybody learns within a window; without, whenever it wants.
    actor.learns_after = random_.In(0, slots_ > 0 ? kTicks : 6 * kTicks);
    actor.asleep_until = 0;
    actor.read = Tail();
  }

  void StartWorker(std::uint32_t k) {
    Worker& worker = workers_[k];
    Place(worker);
    worker.fence = LogFence(fleet_.mutation);
    worker.used = worker.used_before = 0;
    worker.counted = LabelAt(Clock(worker));
    if (worker.old_version) {
      worker.first_label = worker.counted + kClockLabels + 1;
      worker.slot = std::make_unique<SlotShares>(KnownTo(worker), kSettle, worker.counted);
      return;
    }
    worker.process = {++incarnations_, std::nullopt, worker.counted, length_, kClockLabels, kSettle};
    if (slots_ > 0) worker.process.slot = k;
    worker.lease = std::make_unique<Lease>(kLimit, worker.process, KnownTo(worker), Clock(worker), fleet_.mutation);
    worker.demand = random_.In(0, 8);
  }
  void KillWorker(std::uint32_t k) {
    workers_[k].lease.reset();
    workers_[k].slot.reset();
  }

  void StartCoordinator(Owner& owner) {
    Place(owner);
    owner.state = std::make_unique<Coordinator>(
        Coordinator::Options{++incarnations_, length_, static_cast<int>(patience_), kSettle, fleet_.mutation});
    owner.state->SetTerms(kLimit, KnownTo(owner), Clock(owner));
  }

  void Arrive() {
    for (auto append = appends_.begin(); append != appends_.end();) {
      if (append->due > tick_) {
        ++append;
        continue;
      }
      log_.push_back(append->record);
      appended_.push_back(tick_);
      append = appends_.erase(append);
    }
    for (std::size_t i = 0; i < mail_.size();) {
      if (mail_[i].due > tick_) {
        ++i;
        continue;
      }
      const Mail mail = mail_[i];
      mail_[i] = mail_.back();
      mail_.pop_back();
      Owner& owner = coordinators_[mail.to];
      if (owner.state && owner.asleep_until <= tick_) owner.state->OnReport(mail.report, Clock(owner));
    }
  }

  // Mostly a tick or two, sometimes windows.
  std::int64_t Delay() { return random_.OneIn(8) ? random_.In(0, 8 * kTicks) : random_.In(0, 3); }

  void Write(const ControlRecord& record) {
    const int copies = random_.OneIn(5) ? 0 : random_.OneIn(10) ? 2 : 1;
    for (int i = 0; i < copies; ++i) appends_.push_back({tick_ + Delay(), record});
  }

  void StepCoordinator(Owner& owner) {
    if (fleet_.takeovers && random_.OneIn(owner.state ? 12 * kTicks : 8 * kTicks)) StartCoordinator(owner);
    if (!owner.state || owner.asleep_until > tick_) return;
    if (random_.OneIn(6 * kTicks)) {
      owner.asleep_until = tick_ + random_.In(1, 6 * kTicks);
      return;
    }
    Coordinator& state = *owner.state;
    const WallTime now = Clock(owner);
    state.SetTerms(kLimit, KnownTo(owner), now);
    const bool behind = random_.OneIn(3);
    while (owner.read < log_.size() && !(behind && random_.OneIn(3))) {
      std::visit([&](const auto& record) { state.OnLog(record, now); }, log_[owner.read++]);
    }
    const bool unclaimed = state.phase() == Coordinator::Phase::kReading ||
                           (state.phase() == Coordinator::Phase::kClaiming && owner.claimed_at + 2 * kTicks < tick_);
    if (unclaimed && owner.read == log_.size()) {
      owner.claimed_at = tick_;
      Write(state.Claim(now));
    }
    if (state.phase() == Coordinator::Phase::kFenced && random_.OneIn(2 * kTicks)) {
      StartCoordinator(owner);
      return;
    }
    if (!random_.OneIn(3)) return;
    for (const auto& record : state.Plan(now)) {
      if (const auto* grant = std::get_if<Grant>(&record)) {
        for (Label w = grant->first; w < grant->end(); ++w) GoneBy(w, grant->terms.rate);
      }
      Write(record);
    }
  }

  void GoneBy(Label w, const MaxRate& rate) { total_[w] = std::max(total_[w], rate.Total(w)); }

  void Spend(Worker& worker, Label label, std::int64_t cap, std::int64_t most) {
    if (label > worker.counted) {
      worker.used_before = worker.used;
      worker.used = 0;
      worker.counted = label;
    }
    const std::int64_t more = std::clamp<std::int64_t>(cap - worker.used, 0, most);
    worker.used += more;
    used_[label] += more;
  }

  void StepWorker(std::uint32_t k) {
    Worker& worker = workers_[k];
    const bool alive = worker.lease || worker.slot;
    if (random_.OneIn(alive ? 14 * kTicks : 3 * kTicks)) {
      KillWorker(k);
      if (!alive || random_.OneIn(2)) StartWorker(k);
    }
    if (worker.asleep_until > tick_) return;
    if (random_.OneIn(10 * kTicks)) {
      worker.asleep_until = tick_ + random_.In(1, 8 * kTicks);
      return;
    }
    if (random_.OneIn(8 * kTicks)) worker.offset = random_.In(-kTicks, kTicks);  // the clock is set
    const WallTime now = Clock(worker);
    if (worker.slot) {
      worker.slot->SetTerms(KnownTo(worker), LabelAt(now));
      const Label label = std::max(worker.counted, LabelAt(now));
      if (label < worker.first_label) return;
      GoneBy(label, worker.slot->terms().rate);
      Spend(worker, label, worker.slot->Least(k, label), random_.In(0, 8));
      return;
    }
    if (!worker.lease) return;
    Lease& lease = *worker.lease;
    lease.SetTerms(KnownTo(worker), now);
    Spend(worker, lease.Advance(now), 0, 0);
    if (!random_.OneIn(3)) {
      while (worker.read < log_.size() && !random_.OneIn(12)) {
        const ControlRecord& record = log_[worker.read++];
        if (const auto* epoch = std::get_if<Epoch>(&record)) {
          worker.fence.Accept(*epoch);
        } else if (worker.fence.Accept(std::get<Grant>(record))) {
          lease.Accept(std::get<Grant>(record), now);
        }
      }
    }
    const Lease::Cap cap = lease.CapAt(lease.label());
    if (cap.source == Lease::Source::kFallback) GoneBy(lease.label(), lease.terms().rate);
    if (random_.OneIn(2)) Spend(worker, lease.label(), cap.permits, random_.OneIn(2) ? 8 : random_.In(0, 3));
    if (random_.OneIn(2 * kTicks)) worker.demand = random_.OneIn(2) ? 0 : random_.In(1, 12);
    if (random_.OneIn(40 * kTicks)) lease.Leave();
    if (!random_.OneIn(5)) return;
    Report report{worker.process.self, Lease::ClaimOf(worker.process), {}};
    report.limits.push_back(lease.Report(worker.used, worker.used_before, worker.demand, random_.OneIn(2)));
    for (std::size_t to = 0; to < coordinators_.size(); ++to) {
      const int copies = random_.OneIn(5) ? 0 : random_.OneIn(10) ? 2 : 1;
      for (int i = 0; i < copies; ++i) mail_.push_back({tick_ + Delay(), to, report});
    }
  }

  Random& random_;
  LeaseFleet fleet_;
  int length_ = 1;
  std::int64_t patience_ = 3;
  std::uint32_t slots_ = 0;
  std::vector<Known> book_;
  std::vector<Worker> workers_;
  std::vector<Owner> coordinators_;
  std::vector<ControlRecord> log_;
  std::vector<std::int64_t> appended_;  // when
  std::vector<Append> appends_;
  std::vector<Mail> mail_;
  Incarnation incarnations_ = 0;
  std::int64_t tick_ = 0;
  std::map<Label, std::int64_t> used_;
  std::map<Label, std::int64_t> total_;  // the highest that anybody went by
};

}  // namespace posthorn::ratelimit::testing
