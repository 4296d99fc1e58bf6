#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../testing.h"
#include "ratelimit/leases/coordinator.h"
#include "ratelimit/leases/lease.h"

namespace posthorn::ratelimit::testing {

inline constexpr char kLimit[] = "limit";

inline Terms TermsOf(std::string_view rate, std::uint64_t revision = 1, std::uint32_t slots = 0) {
  return {Rate(rate), slots, revision};
}

inline Grant GrantOf(Incarnation to, GrantId id, Label first, std::vector<std::int64_t> shares,
                     const Terms& terms = TermsOf("10/s")) {
  return {kLimit, to, id, first, std::move(shares), terms};
}

/// A fleet on a good day: what is sent arrives, a tenth of a window later. A test says who has how much to do, and who
/// dies. For what a bad day does to the promise there is lease_history.h; here it is whether the permits are used.
class CalmFleet {
 public:
  static constexpr std::int64_t kSteps = 10;  // of a window

  struct Worker {
    std::unique_ptr<Lease> lease;  // none: dead
    Lease::Process process;
    LogFence fence;
    std::size_t read = 0;
    std::int64_t arrivals = 0;  // in each window, evenly
    std::int64_t backlog = 0;
    std::int64_t used = 0;
    std::int64_t used_before = 0;
    Label counted = 0;
    bool reports = true;
    Nanoseconds clock{};  // off by this
    std::map<Label, std::int64_t> spent;
  };

  CalmFleet(std::size_t workers, const Terms& terms, int length = 10) : terms_(terms), length_(length) {
    for (std::size_t i = 0; i < workers; ++i) Join();
    StartCoordinator();
  }

  Worker& Join() {
    auto& worker = workers_.emplace_back(std::make_unique<Worker>());
    Start(*worker, workers_.size() - 1);
    return *worker;
  }
  /// Another process in the place of worker `i`, whatever became of the one before.
  void Restart(std::size_t i) { Start(*workers_[i], i); }
  void Kill(std::size_t i) { workers_[i]->lease.reset(); }

  /// Beside those that there are; it claims the log.
  void StartCoordinator() {
    coordinators_.push_back(std::make_unique<Coordinator>(Coordinator::Options{++incarnations_, length_}));
    coordinators_.back()->SetTerms(kLimit, terms_, Now());
    read_.push_back(ReadLog(*coordinators_.back(), Tail()));
    Append(coordinators_.back()->Claim(Now()));
  }
  void KillCoordinator(std::size_t j) { coordinators_[j].reset(); }
  /// From here on coordinator `j` reads nothing of the log, but hears reports and writes.
  void BlindCoordinator(std::size_t j) { read_[j] = kBlind; }

  /// Everybody learns of it at once.
  void SetTerms(const Terms& terms) {
    terms_ = terms;
    for (auto& coordinator : coordinators_) {
      if (coordinator) coordinator->SetTerms(kLimit, terms, Now());
    }
    for (auto& worker : workers_) {
      if (worker->lease) worker->lease->SetTerms(terms, Now() + worker->clock);
    }
  }

  void Windows(int windows) {
    for (std::int64_t i = 0; i < windows * kSteps; ++i) Step();
  }
  void Step() {
    for (auto& worker : workers_) {
      if (worker->lease) StepWorker(*worker);
    }
    const auto mail = std::exchange(mail_, {});
    for (std::size_t j = 0; j < coordinators_.size(); ++j) {
      auto& coordinator = coordinators_[j];
      if (!coordinator) continue;
      read_[j] = ReadLog(*coordinator, read_[j]);
      for (const auto& report : mail) coordinator->OnReport(report, Now());
      for (auto& record : coordinator->Plan(Now())) Append(std::move(record));
    }
    ++step_;
  }

  [[nodiscard]] WallTime Now() const { return At(step_ * (kWindow / kSteps)); }
  [[nodiscard]] Label label() const { return LabelAt(Now()); }
  [[nodiscard]] Worker& worker(std::size_t i) { return *workers_[i]; }
  [[nodiscard]] Coordinator& coordinator(std::size_t j) { return *coordinators_[j]; }
  [[nodiscard]] std::int64_t Spent(Label w) const {
    std::int64_t sum = 0;
    for (const auto& worker : workers_) {
      if (const auto found = worker->spent.find(w); found != worker->spent.end()) sum += found->second;
    }
    return sum;
  }
  /// The first label in which more was spent than the limit's total.
  [[nodiscard]] std::optional<Label> Above() const {
    for (Label w = kFirst; w <= label(); ++w) {
      if (Spent(w) > terms_.rate.Total(w)) return w;
    }
    return std::nullopt;
  }
  /// Grants written so far.
  [[nodiscard]] std::vector<Grant> Grants() const {
    std::vector<Grant> grants;
    for (const auto& [step, record] : log_) {
      if (const auto* grant = std::get_if<Grant>(&record)) grants.push_back(*grant);
    }
    return grants;
  }

 private:
  void Start(Worker& worker, std::size_t place) {
    worker.process = {++incarnations_, std::nullopt, LabelAt(Now() + worker.clock), length_};
    if (terms_.slots > 0) worker.process.slot = static_cast<std::uint32_t>(place);
    worker.lease = std::make_unique<Lease>(kLimit, worker.process, terms_, Now() + worker.clock);
    worker.fence = LogFence();
    worker.read = Tail();
    worker.used = worker.used_before = 0;
    worker.counted = worker.lease->label();
  }
  [[nodiscard]] std::size_t Tail() const {
    std::size_t from = 0;
    while (from < log_.size() && log_[from].first < step_ - (length_ + 4) * kSteps) ++from;
    return from;
  }
  static constexpr std::size_t kBlind = SIZE_MAX;
  std::size_t ReadLog(Coordinator& coordinator, std::size_t from) {
    for (; from < log_.size() && log_[from].first < step_; ++from) {
      std::visit([&](const auto& record) { coordinator.OnLog(record, Now()); }, log_[from].second);
    }
    return from;
  }
  void Append(ControlRecord record) { log_.emplace_back(step_, std::move(record)); }

  void StepWorker(Worker& worker) {
    const WallTime now = Now() + worker.clock;
    Lease& lease = *worker.lease;
    const Label label = lease.Advance(now);
    for (; worker.read < log_.size() && log_[worker.read].first < step_; ++worker.read) {
      const auto& record = log_[worker.read].second;
      if (const auto* epoch = std::get_if<Epoch>(&record)) {
        worker.fence.Accept(*epoch);
      } else if (const auto& grant = std::get<Grant>(record); worker.fence.Accept(grant)) {
        lease.Accept(grant, now);
      }
    }
    if (label > worker.counted) {
      worker.used_before = std::exchange(worker.used, 0);
      worker.counted = label;
    }
    const std::int64_t at = step_ % kSteps;
    worker.backlog += worker.arrivals * (at + 1) / kSteps - worker.arrivals * at / kSteps;
    const std::int64_t cap = lease.CapAt(label).permits;
    const std::int64_t spent = std::clamp<std::int64_t>(cap - worker.used, 0, worker.backlog);
    worker.used += spent;
    worker.backlog -= spent;
    worker.spent[label] += spent;
    const bool starved = worker.backlog > 0;
    if (!worker.reports || (at != 6 && !starved)) return;
    Report report{worker.process.self, Lease::ClaimOf(worker.process), {}};
    report.limits.push_back(lease.Report(worker.used, worker.used_before, worker.backlog + worker.arrivals, starved));
    mail_.push_back(std::move(report));
  }

  Terms terms_;
  int length_;
  std::int64_t step_ = 0;
  Incarnation incarnations_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::vector<std::size_t> read_;
  std::vector<std::pair<std::int64_t, ControlRecord>> log_;  // with the step it was written in
  std::vector<Report> mail_;
};

}  // namespace posthorn::ratelimit::testing
