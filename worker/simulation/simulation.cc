#include "worker/simulation/simulation.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "worker/simulation/hermes_shares.h"
#include "worker/simulation/leased_shares.h"
#include "worker/simulation/share_strategy.h"
#include "worker/simulation/static_shares.h"
#include "worker/simulation/suppression_shares.h"

namespace posthorn::simulation {
namespace {

using ratelimit::SecondsOf;

using ratelimit::kWindow;
using ratelimit::LabelAt;
using ratelimit::StartOf;

constexpr Label kSecondZero = 1'800'000'000;

// Less of a window says little about the whole of it.
constexpr Nanoseconds kEnoughOfWindow = std::chrono::milliseconds(200);

// Messages come and requests end, whatever the limit.
class Endpoint {
 public:
  Endpoint(const Worker& worker, double phase) : worker_(worker), backlog_(worker.backlog), due_(phase) {}

  void Change(const Event& event) {
    if (event.arrivals) worker_.arrivals = *event.arrivals;
    if (event.endpoint_time) worker_.endpoint_time = *event.endpoint_time;
    backlog_ += event.backlog;
  }

  void Advance(WallTime now, Nanoseconds passed) {
    if (const Label label = LabelAt(now); label != label_) {
      started_before_ = std::exchange(started_, 0);
      label_ = label;
    }
    due_ += worker_.arrivals * SecondsOf(passed);
    const auto whole = static_cast<std::int64_t>(due_);
    due_ -= static_cast<double>(whole);
    backlog_ += whole;
    while (!requests_.empty() && requests_.front().first <= now) {
      in_flight_ -= requests_.front().second;
      requests_.pop_front();
    }
  }

  [[nodiscard]] Load LoadAt(WallTime now) const { return {backlog_, worker_.max_in_flight - in_flight_, Pace(now)}; }

  void Take(const Started& started, WallTime now) {
    backlog_ -= started.sent + started.rejected;
    started_ += started.sent;
    if (started.sent == 0 || worker_.endpoint_time == Nanoseconds(0)) return;
    in_flight_ += started.sent;
    requests_.emplace_back(now + worker_.endpoint_time, started.sent);
  }

  /// The process is gone, and its requests with it. They were answered, as far as anybody counts.
  void Stop() {
    in_flight_ = 0;
    requests_.clear();
    started_ = started_before_ = 0;
  }

  [[nodiscard]] std::int64_t backlog() const { return backlog_; }

 private:
  [[nodiscard]] std::int64_t Pace(WallTime now) const {
    const Nanoseconds passed = now - StartOf(label_);
    if (passed < kEnoughOfWindow) return started_before_;
    const double running = static_cast<double>(started_) / SecondsOf(passed);
    return std::max(started_before_, static_cast<std::int64_t>(running));
  }

  Worker worker_;
  std::int64_t backlog_;
  double due_;  // a part of the next message
  Label label_ = 0;
  std::int64_t started_ = 0;  // in label_
  std::int64_t started_before_ = 0;
  std::int64_t in_flight_ = 0;
  std::deque<std::pair<WallTime, std::int64_t>> requests_;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, Strategy strategy, const CpuTime& cpu_time)
      : scenario_(scenario),
        random_(scenario.seed),
        begin_(StartOf(kSecondZero) - scenario.warm_up),
        strategy_(MakeStrategy(strategy, scenario, random_, begin_, cpu_time)),
        running_(scenario.workers.size(), false) {
    outcome_.strategy = strategy;
    outcome_.first = kSecondZero;
    outcome_.seconds = static_cast<std::size_t>(scenario.duration / kWindow);
    for (const Worker& worker : scenario.workers) {
      outcome_.workers.push_back(worker.name);
      endpoints_.emplace_back(worker, random_.Unit());
    }
    outcome_.cells.resize(outcome_.seconds * scenario.workers.size());
  }

  Outcome Run() {
    for (std::size_t i = 0; i < running_.size(); ++i) Start(i, begin_);
    const WallTime end = StartOf(kSecondZero) + scenario_.duration;
    auto event = scenario_.events.begin();
    // A little beyond the end: workers whose clock is behind are still in its last second.
    for (WallTime now = begin_ + scenario_.tick; now <= end + scenario_.clock_offset; now += scenario_.tick) {
      const WallTime before = now - scenario_.tick;
      for (; event != scenario_.events.end() && StartOf(kSecondZero) + event->at < now; ++event) Apply(*event, before);
      strategy_->Advance(now);
      for (std::size_t i = 0; i < endpoints_.size(); ++i) Step(i, now);
      if (LabelAt(now + scenario_.tick) > LabelAt(now)) EndSecond(now);
    }
    Totals();
    return std::move(outcome_);
  }

 private:
  void Start(std::size_t i, WallTime now) {
    if (running_[i]) return;
    running_[i] = true;
    strategy_->Start(i, now);
  }

  void Stop(std::size_t i, bool graceful, WallTime now) {
    if (!running_[i]) return;
    running_[i] = false;
    strategy_->Stop(i, graceful, now);
    endpoints_[i].Stop();
  }

  void Apply(const Event& event, WallTime now) {
    if (event.network) strategy_->SetNetwork(*event.network);
    if (event.max_rate) strategy_->SetMaxRate(*event.max_rate, now);
    if (event.kill_coordinator) strategy_->KillCoordinator(now);
    for (const std::size_t i : event.workers) {
      endpoints_[i].Change(event);
      if (event.process == Event::Process::kStart) Start(i, now);
      if (event.process == Event::Process::kStop) Stop(i, true, now);
      if (event.process == Event::Process::kKill) Stop(i, false, now);
    }
    if (!event.text.empty()) outcome_.events.push_back({static_cast<std::size_t>(event.at / kWindow), event.text});
  }

  void Step(std::size_t i, WallTime now) {
    Endpoint& endpoint = endpoints_[i];
    endpoint.Advance(now, scenario_.tick);
    if (!running_[i]) return;
    const Started started = strategy_->Take(i, endpoint.LoadAt(now), now);
    endpoint.Take(started, now);
    if (started.sent == 0 && started.rejected == 0) return;
    const Label second = (started.sent > 0 ? started.label : LabelAt(now)) - kSecondZero;
    if (second < 0 || second >= static_cast<Label>(outcome_.seconds)) return;
    Cell& cell = CellOf(second, i);
    cell.sent += started.sent;
    cell.rejected += started.rejected;
  }

  void EndSecond(WallTime now) {
    const Label second = LabelAt(now) - kSecondZero;
    const auto planning = strategy_->PlanningTime();
    const Nanoseconds planned_before = std::exchange(planned_, planning.value_or(Nanoseconds(0)));
    if (second < 0 || second >= static_cast<Label>(outcome_.seconds)) return;
    if (planning) outcome_.planning.push_back(*planning - planned_before);
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      Cell& cell = CellOf(second, i);
      cell.lag = endpoints_[i].backlog();
      cell.share = strategy_->Share(i, now);
      cell.running = running_[i];
    }
  }

  void Totals() {
    // Each max-rate from its announcement until everybody has learned of the next one.
    struct InForce {
      MaxRate rate;
      WallTime announced;
      WallTime from;
      WallTime until;
    };
    std::vector<InForce> rates = {{scenario_.max_rate, WallTime::min(), WallTime::min(), WallTime::max()}};
    for (const Event& event : scenario_.events) {
      if (!event.max_rate) continue;
      const WallTime at = StartOf(kSecondZero) + event.at;
      rates.back().until = at + scenario_.config_delay + scenario_.tick + scenario_.clock_offset;
      rates.push_back({*event.max_rate, at, at - scenario_.tick - scenario_.clock_offset, WallTime::max()});
    }
    for (std::size_t second = 0; second < outcome_.seconds; ++second) {
      const Label label = kSecondZero + static_cast<Label>(second);
      std::int64_t total = 0;
      std::int64_t most = 0;
      for (const InForce& in_force : rates) {
        if (in_force.announced <= StartOf(label)) total = in_force.rate.Total(label);
        if (in_force.from < StartOf(label + 1) && in_force.until > StartOf(label)) {
          most = std::max(most, in_force.rate.Total(label));
        }
      }
      outcome_.total.push_back(total);
      outcome_.most.push_back(strategy_->SharedOut(label).value_or(most));
    }
  }

  Cell& CellOf(Label second, std::size_t i) {
    return outcome_.cells[static_cast<std::size_t>(second) * endpoints_.size() + i];
  }

  const Scenario& scenario_;
  Random random_;
  WallTime begin_;
  std::unique_ptr<ShareStrategy> strategy_;
  std::vector<Endpoint> endpoints_;
  std::vector<bool> running_;
  Nanoseconds planned_{0};  // PlanningTime at the end of the last second
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<ShareStrategy> MakeStrategy(Strategy strategy, const Scenario& scenario, Random& random, WallTime begin,
                                            const CpuTime& cpu_time) {
  switch (strategy) {
    case Strategy::kStatic:
      return std::make_unique<StaticShares>(scenario, random);
    case Strategy::kHermes:
      return std::make_unique<HermesShares>(scenario, random, begin);
    case Strategy::kFraction:
      return std::make_unique<SuppressionShares>(scenario, random, begin);
    case Strategy::kAdaptive:
      break;
  }
  return std::make_unique<LeasedShares>(scenario, random, begin, cpu_time);
}

Outcome Run(const Scenario& scenario, Strategy strategy, const CpuTime& cpu_time) {
  return Simulation(scenario, strategy, cpu_time).Run();
}

}  // namespace posthorn::simulation
