#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/fleet/control_node.h"

namespace posthorn::fleet::testing {

using ratelimit::Label;
using runtime::WallTime;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr Label kFirst = 1'793'000'000;

/// Workers with real limiters and control nodes, and control topics that lose, delay and reorder as they are told. Each
/// worker sends as fast as its limiter lets it while it has something to send. Time is virtual.
class ControlFleet {
 public:
  struct Topics {
    double loss = 0;  // of reports and of appends
    milliseconds least{2};
    milliseconds most{10};
  };

  ControlFleet(std::int32_t partitions, std::uint64_t seed)
      : random(seed), logs_(static_cast<std::size_t>(partitions)) {
    owners.resize(static_cast<std::size_t>(partitions));
  }

  struct Worker final : ControlLink {
    Worker(ControlFleet& in, std::size_t number, const std::string& name, std::optional<std::uint32_t> slot)
        : fleet(in), index(number), instance(name), read(in.logs_.size(), 0), ended(in.logs_.size(), false) {
      ratelimit::Lease::Process process;
      process.self = fleet.random();
      process.slot = slot;
      process.started = ratelimit::LabelAt(Now().wall);
      LimitBook::Options options;
      options.by_lease = process;
      book = std::make_unique<LimitBook>(options);
      ControlNode::Parts parts;
      parts.instance = instance;
      parts.self = process.self;
      parts.limits = book.get();
      parts.link = this;
      parts.demand = [this](const runtime::Now&) {
        std::map<std::string, Demand> demand;
        for (const auto& [limit, backlog] : todo) demand[limit] = {backlog, backlog};
        return demand;
      };
      parts.wake = [] {};
      node = std::make_unique<ControlNode>(std::move(parts));
      node->OnReady(static_cast<std::int32_t>(fleet.logs_.size()));
    }
    [[nodiscard]] runtime::Now Now() const {
      return {fleet.now + clock, runtime::SteadyTime(fleet.now.time_since_epoch())};
    }
    void Report(std::int32_t partition, std::string_view bytes) override {
      fleet.Report(partition, std::string(bytes));
    }
    void Append(std::int32_t partition, std::string_view bytes) override {
      fleet.Append(partition, std::string(bytes));
    }
    void SetCandidate(bool wanted) override { candidate = wanted; }

    ControlFleet& fleet;
    const std::size_t index;
    const std::string instance;
    milliseconds clock{0};
    std::map<std::string, std::int64_t> todo;
    bool candidate = true;
    bool frozen = false;  // stopped; what came meanwhile comes when it goes on
    std::unique_ptr<LimitBook> book;
    std::unique_ptr<ControlNode> node;
    std::vector<std::size_t> read;  // of each log
    std::vector<bool> ended;
  };

  Worker& Add(const std::string& name, std::optional<std::uint32_t> slot = std::nullopt) {
    workers.push_back(std::make_unique<Worker>(*this, workers.size(), name, slot));
    Tell(*workers.back());
    return *workers.back();
  }
  /// Gone without a word.
  void Kill(std::size_t index) {
    for (auto& owner : owners) {
      if (owner == index) owner.reset();
    }
    workers[index].reset();
  }
  void SetRate(const std::string& limit, std::string_view rate, std::optional<std::uint32_t> instances = std::nullopt) {
    rates[limit] = ratelimit::MaxRate::Parse(rate, nullptr).value();
    slots = instances;
  }
  /// The configuration as it is.
  [[nodiscard]] config::Snapshot Configuration() const {
    config::Snapshot snapshot;
    snapshot.instances = slots;
    for (const auto& [name, rate] : rates) {
      config::Limit limit;
      limit.name = name;
      limit.max_rate = rate;
      limit.burst = config::Burst::kWindow;
      snapshot.limits.push_back(limit);
    }
    return snapshot;
  }
  /// The worker learns of it.
  void Tell(Worker& worker) const {
    worker.book->OnSnapshot(std::make_shared<const config::Snapshot>(Configuration()), worker.Now().wall);
  }
  void TellAll() {
    for (auto& worker : workers) {
      if (worker) Tell(*worker);
    }
  }
  /// The group gives a partition to a worker. The one that had it hears of that, unless it is `unheard`.
  void Own(std::size_t partition, std::optional<std::size_t> worker, bool unheard = false) {
    const auto number = static_cast<std::int32_t>(partition);
    auto& owner = owners[partition];
    if (owner && owner != worker && workers[*owner] && !unheard) {
      workers[*owner]->node->OnOwned(number, false, workers[*owner]->Now());
    }
    owner = worker;
    if (!worker) return;
    workers[*worker]->node->OnOwned(number, true, workers[*worker]->Now());
    for (const auto& report : recent_) {
      if (report.partition == number) workers[*worker]->node->OnReport(number, report.bytes, workers[*worker]->Now());
    }
  }

  void Step() {
    now += kStep;
    for (auto& worker : workers) {
      if (worker && !worker->frozen) Run(*worker);
    }
    Deliver();
  }
  void RunFor(seconds time) {
    for (const WallTime end = now + time; now < end;) Step();
  }

  /// Permits that all workers have taken.
  [[nodiscard]] std::int64_t Used(const std::string& limit, Label w) const {
    const auto found = used.find({limit, w});
    return found == used.end() ? 0 : found->second;
  }

  static constexpr milliseconds kStep{10};
  std::mt19937_64 random;
  Topics topics;
  WallTime now = ratelimit::StartOf(kFirst);
  std::vector<std::unique_ptr<Worker>> workers;  // null: killed
  std::vector<std::optional<std::size_t>> owners;
  std::map<std::string, ratelimit::MaxRate> rates;
  std::optional<std::uint32_t> slots;
  std::map<std::pair<std::string, Label>, std::int64_t> used;  // by all, by the label they counted in

 private:
  [[nodiscard]] bool Lost() { return std::uniform_real_distribution<>()(random) < topics.loss; }
  [[nodiscard]] WallTime Later() {
    return now +
           milliseconds(std::uniform_int_distribution<std::int64_t>(topics.least.count(), topics.most.count())(random));
  }
  void Report(std::int32_t partition, std::string bytes) {
    if (!Lost()) under_way_.push_back({Later(), partition, std::move(bytes)});
  }
  void Append(std::int32_t partition, std::string bytes) {
    if (!Lost()) logs_[static_cast<std::size_t>(partition)].push_back({Later(), std::move(bytes)});
  }
  void Deliver() {
    std::vector<UnderWay> due;
    std::erase_if(under_way_, [&](auto& message) {
      if (message.at > now) return false;
      due.push_back(std::move(message));
      return true;
    });
    std::erase_if(recent_, [&](const auto& message) { return message.at < now - kReadBack; });
    recent_.insert(recent_.end(), due.begin(), due.end());
    for (const auto& message : due) {
      const auto owner = owners[static_cast<std::size_t>(message.partition)];
      if (!owner || !workers[*owner] || workers[*owner]->frozen) continue;
      workers[*owner]->node->OnReport(message.partition, message.bytes, workers[*owner]->Now());
    }
  }
  void Run(Worker& worker) {
    const auto at = worker.Now();
    for (std::size_t p = 0; p < logs_.size(); ++p) {
      const auto number = static_cast<std::int32_t>(p);
      auto& read = worker.read[p];
      for (; read < logs_[p].size() && logs_[p][read].at <= now; ++read)
        worker.node->OnLog(number, logs_[p][read].bytes, at);
      if (!worker.ended[p] && read == logs_[p].size()) {
        worker.ended[p] = true;
        worker.node->OnLogEnd(number);
      }
    }
    (void)worker.node->Tick(at);
    for (auto& [limit, backlog] : worker.todo) {
      const auto limiter = worker.book->Find(limit);
      while (limiter && backlog > 0) {
        const auto decision = limiter->Acquire(at.wall, ratelimit::Nanoseconds(0));
        const auto* admitted = std::get_if<ratelimit::Admitted>(&decision);
        if (admitted == nullptr) break;
        ++used[{limit, admitted->label}];
        --backlog;
      }
    }
  }

  struct UnderWay {
    WallTime at;
    std::int32_t partition = 0;
    std::string bytes;
  };
  struct Appended {
    WallTime at;
    std::string bytes;
  };
  static constexpr seconds kReadBack{60};  // whoever is given a partition reads what was reported lately
  std::vector<UnderWay> under_way_;
  std::vector<UnderWay> recent_;
  std::vector<std::deque<Appended>> logs_;
};

}  // namespace posthorn::fleet::testing
