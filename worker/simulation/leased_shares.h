#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "ratelimit/leases/coordinator.h"
#include "worker/simulation/leased_worker.h"
#include "worker/simulation/mail.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// `shares: adaptive`: the leases that workers run by (ratelimit/leases), with one control log between them. Reports
/// and appended records take the network's delay and may be lost; reports may come twice. The log itself is read in
/// order by everybody, each reader with a delay of his own.
class LeasedShares final : public ShareStrategy {
 public:
  LeasedShares(const Scenario& scenario, Random& random, WallTime begin, CpuTime cpu_time);

  void Start(std::size_t i, WallTime now) override;
  void Stop(std::size_t i, bool graceful, WallTime now) override;
  void SetMaxRate(const MaxRate& rate, WallTime now) override;
  void SetNetwork(const Network& network) override { network_ = network; }
  void KillCoordinator(WallTime now) override;
  void Advance(WallTime now) override;
  Started Take(std::size_t i, const Load& load, WallTime now) override;
  double Share(std::size_t i, WallTime now) override;
  /// By a grant, however old, or by falling back to a slot.
  [[nodiscard]] std::optional<std::int64_t> SharedOut(Label w) const override;
  [[nodiscard]] std::optional<Nanoseconds> PlanningTime() const override;

 private:
  using Record = std::shared_ptr<const ratelimit::ControlRecord>;
  // Letters.
  struct ToCoordinator {
    ratelimit::Report report;
  };
  struct ToLog {
    Record record;
  };
  struct ToReader {  // a process that has ended reads no more
    ratelimit::Incarnation reader = 0;
    Record record;
  };
  struct NewPlan {
    ratelimit::Incarnation reader = 0;  // a worker's process, or the coordinator's
    ratelimit::Plan plan;
  };
  struct NextCoordinator {};
  struct ClaimAgain {
    ratelimit::Incarnation by = 0;
  };
  using Letter = std::variant<ToCoordinator, ToLog, ToReader, NewPlan, NextCoordinator, ClaimAgain>;
  struct Logged {
    WallTime at;
    Record record;
  };

  void Open(const ToCoordinator& letter, WallTime now);
  void Open(const ToLog& letter, WallTime now);
  void Open(const ToReader& letter, WallTime now);
  void Open(const NewPlan& letter, WallTime now);
  void Open(const NextCoordinator& letter, WallTime now);
  void Open(const ClaimAgain& letter, WallTime now);

  void StartCoordinator(WallTime now);
  void Claim(WallTime now);
  void Send(ratelimit::Report report, WallTime now);
  void Append(ratelimit::ControlRecord record, WallTime now);
  void LetRead(ratelimit::Incarnation reader, const Record& record, WallTime now);
  void Hear(const ratelimit::Report& report, WallTime now);
  void GoneBy(Label w, const MaxRate& rate);
  /// Does `work`, which is the coordinator's.
  template <typename Work>
  auto Measured(const Work& work);
  [[nodiscard]] WallTime Local(std::size_t i, WallTime now) const { return now + scenario_.workers[i].clock; }
  [[nodiscard]] WallTime CoordinatorTime(WallTime now) const { return now + coordinator_clock_; }

  const Scenario& scenario_;
  Random& random_;
  Network network_;
  ratelimit::Plan plan_;
  Mail<Letter> mail_;

  std::vector<std::unique_ptr<LeasedWorker>> workers_;  // null: it does not run
  std::map<ratelimit::Incarnation, std::size_t> running_;
  std::map<ratelimit::Incarnation, WallTime> read_until_;  // a reader's records come in the order of the log

  std::deque<Logged> log_;  // as far back as anybody reads

  std::unique_ptr<ratelimit::Coordinator> coordinator_;  // null: nobody has the log
  ratelimit::Incarnation coordinator_self_ = 0;
  Nanoseconds coordinator_clock_{0};                           // off by this
  std::map<ratelimit::Incarnation, ratelimit::Report> early_;  // newest reports from before it leads
  bool reported_ = false;                                      // since it last planned
  WallTime planned_{};
  std::map<Label, std::int64_t> shared_out_;
  CpuTime cpu_time_;
  Nanoseconds planning_time_{0};
};

}  // namespace posthorn::simulation
