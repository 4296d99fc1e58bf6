// What a coordinator needs for one limit with N workers in one window of its life: the plan at the window's start, a
// report of each worker (with its ack), and the plan that follows. A window is one second.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ratelimit/leases/coordinator.h"
#include "ratelimit/leases/lease.h"

namespace posthorn::ratelimit {
namespace {

constexpr Label kFirst = 1'793'000'000;
constexpr char kLimit[] = "limit";
constexpr Incarnation kFirstWorker = 2;

class Fleet {
 public:
  explicit Fleet(std::size_t workers) {
    const Terms terms{MaxRate::Parse("50000/s", nullptr).value(), 0, 1};
    coordinator_.SetTerms(kLimit, terms, Now());
    coordinator_.OnLog(coordinator_.Claim(Now()), Now());
    for (std::size_t i = 0; i < workers; ++i) {
      workers_.emplace_back(kLimit, Lease::Process{i + kFirstWorker, std::nullopt, label_}, terms, Now());
      // Half as much again as there is, most of it at a few.
      demands_.push_back(static_cast<std::int64_t>(9000 / std::pow(static_cast<double>(i + 1), 0.7)));
    }
  }

  /// What workers do; not measured.
  std::vector<Report> TakeAndReport(const std::vector<ControlRecord>& records) {
    for (const ControlRecord& record : records) {
      const auto* grant = std::get_if<Grant>(&record);
      if (grant == nullptr) continue;
      workers_[grant->to - kFirstWorker].Accept(*grant, Now());
      ++grants_;
    }
    std::vector<Report> reports;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].Advance(Now());
      // Demand moves: each is at another's place in every window.
      const std::int64_t demand = demands_[(i + window_ * 37) % demands_.size()];
      const std::int64_t used = std::min(demand, workers_[i].CapAt(label_).permits);
      reports.push_back({i + kFirstWorker, std::nullopt, {workers_[i].Report(used, 0, demand, used < demand)}});
    }
    return reports;
  }

  std::vector<ControlRecord> BeginWindow() {
    ++label_;
    ++window_;
    return coordinator_.Plan(Now());
  }

  std::vector<ControlRecord> Plan(const std::vector<Report>& reports) {
    for (const Report& report : reports) coordinator_.OnReport(report, Now());
    return coordinator_.Plan(Now());
  }

  [[nodiscard]] std::size_t grants() const { return grants_; }

 private:
  [[nodiscard]] WallTime Now() const { return StartOf(label_) + kWindow / 2; }

  Label label_ = kFirst;
  std::size_t window_ = 0;
  std::size_t grants_ = 0;
  Coordinator coordinator_{Coordinator::Options{1}};
  std::vector<Lease> workers_;
  std::vector<std::int64_t> demands_;
};

void PlanWindow(benchmark::State& state) {
  Fleet fleet(static_cast<std::size_t>(state.range(0)));
  for (int i = 0; i < 12; ++i) {
    (void)fleet.TakeAndReport(fleet.BeginWindow());
    (void)fleet.TakeAndReport(fleet.Plan(fleet.TakeAndReport({})));
  }
  const std::size_t before = fleet.grants();
  for (auto _ : state) {
    auto records = fleet.BeginWindow();
    state.PauseTiming();
    const auto reports = fleet.TakeAndReport(records);
    state.ResumeTiming();
    records = fleet.Plan(reports);
    state.PauseTiming();
    (void)fleet.TakeAndReport(records);
    state.ResumeTiming();
  }
  state.counters["grants"] =
      benchmark::Counter(static_cast<double>(fleet.grants() - before), benchmark::Counter::kAvgIterations);
}

BENCHMARK(PlanWindow)->Arg(100)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace posthorn::ratelimit
