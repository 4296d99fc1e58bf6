// Random histories of fleets that deal by partition: partitions move between workers whose clocks differ, workers are
// killed and started again, topics grow, the rate changes.

#include <gtest/gtest.h>

#include "fleet.h"

namespace posthorn::ratelimit {
namespace {

using testing::Book;
using testing::milliseconds;
using testing::Outcome;
using testing::Process;
using testing::Random;
using testing::seconds;

struct Fleet {
  Timing rules;
  bool moves = true;
  bool restarts = true;
  bool growth = true;
  bool rate_changes = true;
};

constexpr Timing kWorld{.session_timeout = seconds(3)};
constexpr std::size_t kWorkers = 4;
constexpr seconds kLength(12);
// The last stands for the partition of a retry topic: once it is there the others count for more.
const std::vector<std::string> kTopics = {"invoices", "orders", "retry"};
constexpr std::size_t kRetry = 2;
constexpr std::uint32_t kWeight = 15;

struct RateRevision {
  Nanoseconds published;
  MaxRate rate;
};
struct SizeRevision {
  Nanoseconds published;
  std::vector<std::uint32_t> partitions;  // of each topic
};

// What one worker knows, by two channels that know nothing of each other, and what it owns.
struct Worker {
  std::unique_ptr<Process> process;
  Nanoseconds offset{};
  Nanoseconds rate_skew{};
  Nanoseconds size_skew{};
  std::size_t rate = 0;
  std::size_t size = 0;
  std::set<std::pair<std::size_t, std::uint32_t>> owned;  // topic, number
};

class World {
 public:
  World(Random& random, const Fleet& fleet) : random_(random), fleet_(fleet), workers_(kWorkers) {
    rates_.push_back({seconds(-60), random_.Of(testing::SomeRates())});
    for (Nanoseconds t = Later(seconds(4)); fleet_.rate_changes && t < kLength; t += Later(seconds(6))) {
      rates_.push_back({t, random_.Of(testing::SomeRates())});
    }
    sizes_.push_back({seconds(-60), {Number(1, 6), Number(0, 4), Number(0, 1)}});
    for (Nanoseconds t = Later(seconds(5)); fleet_.growth && t < kLength; t += Later(seconds(9))) {
      auto partitions = sizes_.back().partitions;
      if (partitions[kRetry] == 0 && random_.OneIn(2)) {
        partitions[kRetry] = 1;
      } else {
        partitions[Number(0, 1)] += Number(1, 3);
      }
      sizes_.push_back({t, partitions});
    }
    for (auto& worker : workers_) Start(worker, seconds(-60));
    for (std::size_t topic = 0; topic < kTopics.size(); ++topic) {
      for (std::uint32_t n = 0; n < sizes_[0].partitions[topic]; ++n) Give({topic, n}, seconds(-55));
    }
  }

  std::optional<std::string> Run() {
    for (Nanoseconds now{0}; now < kLength;) {
      now += random_.OneIn(3) ? random_.In(milliseconds(1), milliseconds(150))
                              : random_.In(milliseconds(1), milliseconds(20));
      for (auto& worker : workers_) Learn(worker, now);
      if (random_.OneIn(4)) GiveNewPartitions(now);
      if (fleet_.moves && random_.OneIn(10)) Move(now);
      if (fleet_.restarts && random_.OneIn(80)) Kill(workers_[Number(0, kWorkers - 1)], now);
      for (auto& worker : workers_) {
        if (worker.process && random_.OneIn(2)) worker.process->Take(now, random_.In(1, 30));
      }
    }
    return book_.Violation();
  }

 private:
  std::uint32_t Number(std::int64_t low, std::int64_t high) {
    return static_cast<std::uint32_t>(random_.In(low, high));
  }
  Nanoseconds Later(Nanoseconds most) { return random_.In(Nanoseconds(milliseconds(50)), most); }

  Plan PlanOf(const Worker& worker) const {
    PartitionDealing dealing;
    for (std::size_t t = 0; t < kTopics.size(); ++t) {
      const auto& partitions = sizes_[worker.size].partitions;
      dealing.topics.push_back({kTopics[t], partitions[t], {}, t != kRetry && partitions[kRetry] > 0 ? kWeight : 1});
    }
    for (const auto& [topic, number] : worker.owned) dealing.topics[topic].owned.push_back(number);
    return {rates_[worker.rate].rate, Burst::kAtOnce, dealing};
  }

  void Start(Worker& worker, Nanoseconds now) {
    const Nanoseconds half = kWorld.max_clock_offset / 2 - Nanoseconds(1);
    worker.offset = random_.In(-half, half);
    worker.rate_skew = random_.In(Nanoseconds(0), kWorld.settle - kWorld.max_clock_offset);
    worker.size_skew = random_.In(Nanoseconds(0), kWorld.session_timeout);
    worker.rate = worker.size = 0;
    while (worker.rate + 1 < rates_.size() && rates_[worker.rate + 1].published + worker.rate_skew <= now)
      ++worker.rate;
    while (worker.size + 1 < sizes_.size() && sizes_[worker.size + 1].published <= now) ++worker.size;
    worker.process = std::make_unique<Process>(book_, PlanOf(worker), fleet_.rules, worker.offset, now);
  }

  void Learn(Worker& worker, Nanoseconds now) {
    for (;;) {
      const auto rate_at =
          worker.rate + 1 < rates_.size() ? rates_[worker.rate + 1].published + worker.rate_skew : kLength * 2;
      const auto size_at =
          worker.size + 1 < sizes_.size() ? sizes_[worker.size + 1].published + worker.size_skew : kLength * 2;
      if (std::min(rate_at, size_at) > now) return;
      rate_at < size_at ? ++worker.rate : ++worker.size;
      if (worker.process) worker.process->Learn(PlanOf(worker), std::min(rate_at, size_at));
    }
  }

  void Give(std::pair<std::size_t, std::uint32_t> partition, Nanoseconds now) {
    auto& worker = workers_[Number(0, kWorkers - 1)];
    if (sizes_[worker.size].partitions[partition.first] <= partition.second) return;  // has not heard of it yet
    worker.owned.insert(partition);
    worker.process->Learn(PlanOf(worker), now);
  }

  void GiveNewPartitions(Nanoseconds now) {
    for (std::size_t topic = 0; topic < kTopics.size(); ++topic) {
      for (const auto& size : sizes_) {
        if (size.published > now) break;
        for (std::uint32_t n = 0; n < size.partitions[topic]; ++n) {
          const bool is_owned = std::any_of(workers_.begin(), workers_.end(), [&](const Worker& w) {
            return w.owned.contains({topic, n});
          });
          if (!is_owned) Give({topic, n}, now);
        }
      }
    }
  }

  // Spends what is left, loses a partition, and somebody has it at the same instant.
  void Move(Nanoseconds now) {
    auto& from = workers_[Number(0, kWorkers - 1)];
    if (from.owned.empty()) return;
    const auto partition =
        *std::next(from.owned.begin(), random_.In(0, static_cast<std::int64_t>(from.owned.size()) - 1));
    if (random_.OneIn(2)) from.process->Take(now, 1000);
    from.owned.erase(partition);
    from.process->Learn(PlanOf(from), now);
    if (!random_.OneIn(3)) Give(partition, now);
  }

  // A killed worker is back at once, owning nothing; the rest is GiveNewPartitions. A process that starts while others
  // have yet to hear of a topic's growth is outside the promise (README).
  void Kill(Worker& worker, Nanoseconds now) {
    for (const auto& other : workers_) {
      if (other.size + 1 < sizes_.size() && sizes_[other.size + 1].published <= now) return;
    }
    worker.owned.clear();
    Start(worker, now);
  }

  Random& random_;
  const Fleet& fleet_;
  std::vector<RateRevision> rates_;
  std::vector<SizeRevision> sizes_;
  Book book_;
  std::vector<Worker> workers_;
};

Outcome Histories(std::uint64_t seed, int count, const Fleet& fleet) {
  return testing::RunHistories(seed, count, [&](Random& random) { return World(random, fleet).Run(); });
}

TEST(PartitionHistories, NeverAboveTheTotal) {
  const Outcome outcome = Histories(1'000'000, testing::kMany, {.rules = kWorld});
  EXPECT_EQ(outcome.broken, 0) << outcome.first;
}

// Each rule is taken away by its own parameter; the same histories must notice.

TEST(PartitionHistories, NoticeWhenAShareBeginsWithTheNextWindow) {
  Fleet fleet{.rules = kWorld, .restarts = false, .growth = false, .rate_changes = false};
  ASSERT_EQ(Histories(2'000'000, 500, fleet).broken, 0);
  fleet.rules.max_clock_offset = Nanoseconds(0);
  EXPECT_GT(Histories(2'000'000, 500, fleet).broken, 0);
}

TEST(PartitionHistories, NoticeWhenAShareBeginsAtOnce) {
  Fleet fleet{.rules = kWorld, .restarts = false, .growth = false, .rate_changes = false};
  fleet.rules.max_clock_offset = -kWindow;
  EXPECT_GT(Histories(2'000'000, 200, fleet).broken, 0);
}

TEST(PartitionHistories, NoticeWhenAGrownTopicIsDealtAtOnce) {
  Fleet fleet{.rules = kWorld, .restarts = false, .rate_changes = false};
  ASSERT_EQ(Histories(3'000'000, 500, fleet).broken, 0);
  fleet.rules.session_timeout = -seconds(2);
  EXPECT_GT(Histories(3'000'000, 500, fleet).broken, 0);
}

}  // namespace
}  // namespace posthorn::ratelimit
