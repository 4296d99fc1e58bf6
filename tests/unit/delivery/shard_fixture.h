#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fake_dead_letters.h"
#include "tests/support/fake_feed.h"
#include "tests/support/fake_guard.h"
#include "tests/support/fake_offset_store.h"
#include "tests/support/fake_readers.h"
#include "tests/support/fake_sender.h"
#include "tests/support/manual_loop.h"
#include "worker/delivery/shard.h"

namespace posthorn::delivery {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline const TopicPartition kPartition{"t", 0};

/// Shards on manual loops with everything around them faked. Time stands still unless a test lets it pass.
class ShardTest : public ::testing::Test {
 protected:
  explicit ShardTest(std::size_t ring = 2048) : ring_records(ring) { MakeShards(1); }
  ~ShardTest() override {
    for (std::size_t i = 0; i < shards.size(); ++i) CloseAll(i);
  }

  void MakeShards(std::size_t n) {
    while (shards.size() < n) {
      senders.push_back(std::make_unique<test::FakeSender>(world.clock));
      Shard::Parts parts;
      parts.index = static_cast<std::uint32_t>(shards.size());
      parts.loop = &world.MakeLoop();
      parts.clock = &world.clock;
      parts.sender = senders.back().get();
      parts.offsets = &offsets;
      parts.dead_letters = &dead_letters;
      parts.guard = &guard;
      parts.readers = &readers;
      parts.ring_records = ring_records;
      parts.longest_gap = seconds(20);
      parts.wake_shard = [this](std::uint32_t shard) {
        ++cross_wakes;
        shards.at(shard)->loop().Post([this, shard] { shards[shard]->PumpAll(); });
      };
      shards.push_back(std::make_unique<Shard>(std::move(parts)));
      shards.back()->Start();
    }
  }

  /// A subscription of topic "t" with no jitter, so that times can be told.
  config::Subscription& Sub(const std::string& name) {
    auto [it, added] = configs.try_emplace(name);
    if (added) {
      it->second.name = name;
      it->second.topic = "t";
      it->second.endpoint = "http://" + name;
      it->second.backoff.jitter = config::Jitter::kNone;
    }
    return it->second;
  }

  std::shared_ptr<SubscriptionShared> Shared(const std::string& name) {
    auto& known = shared[name];
    if (!known) known = std::make_shared<SubscriptionShared>(name, Sub(name).max_in_flight, 4);
    return known;
  }

  std::shared_ptr<ratelimit::Limiter> MakeLimiter(std::string_view rate,
                                                  ratelimit::Burst burst = ratelimit::Burst::kSmooth,
                                                  std::uint32_t slot = 0, std::uint32_t instances = 1) {
    return std::make_shared<ratelimit::Limiter>(PlanFor(rate, burst, slot, instances), ratelimit::Limiter::Options{},
                                                world.clock.Read().wall);
  }
  static ratelimit::Plan PlanFor(std::string_view rate, ratelimit::Burst burst = ratelimit::Burst::kSmooth,
                                 std::uint32_t slot = 0, std::uint32_t instances = 1) {
    return {ratelimit::MaxRate::Parse(rate, nullptr).value(), burst, ratelimit::SlotDealing{slot, instances}};
  }

  /// Puts all of Sub() in force, as the dispatcher would.
  void Apply() {
    std::vector<SubscriptionUpdate> updates;
    for (const auto& [name, config] : configs) {
      SubscriptionUpdate update;
      update.config = std::make_shared<config::Subscription>(config);
      update.shared = Shared(name);
      update.shared->slots.SetMax(config.max_in_flight);
      if (const auto limiter = limiters.find(name); limiter != limiters.end()) {
        update.limiter = limiter->second;
        auto& known = turns[limiter->second];
        if (!known) known = std::make_shared<PermitTurns>();
        update.turns = known;
      }
      update.stopped = config.paused;
      updates.push_back(std::move(update));
    }
    for (auto& shard : shards) {
      shard->loop().Post([&shard, updates] { shard->SetSubscriptions(updates); });
    }
    world.RunReady();
  }

  std::shared_ptr<test::FakeLog> Log(const TopicPartition& id = kPartition) {
    auto& log = logs[id];
    if (!log) log = std::make_shared<test::FakeLog>();
    return log;
  }
  test::FakeFeed& AddPartition(const TopicPartition& id = kPartition, Offset start = 0, std::size_t shard = 0) {
    auto feed = std::make_shared<test::FakeFeed>(id, Log(id));
    feed->StartAt(start);
    memory->parts.fetch_add(1);
    shards[shard]->AddPartition(feed, std::make_shared<MemoryAccount>(memory), start);
    feeds[id] = feed;
    return *feed;
  }
  std::shared_ptr<LaneStats> AddLane(const std::string& name, const TopicPartition& id = kPartition, Offset next = 0,
                                     std::size_t shard = 0) {
    auto stats = std::make_shared<LaneStats>(id, next);
    shards[shard]->AddLane(id, {name, stats, next});
    world.RunReady();
    return stats;
  }
  /// One subscription "s" on one partition, with `n` messages.
  void Simple(std::size_t n) {
    Sub("s");
    Log()->AppendMany(n);
    Apply();
    AddPartition();
    lane_stats = AddLane("s");
  }
  void Append(std::size_t n, const TopicPartition& id = kPartition) {
    Log(id)->AppendMany(n);
    feeds[id]->Wake();
    readers.Wake();
    world.RunReady();
  }

  /// Answers the oldest request of shard 0 and runs what follows.
  void Ok() { sender().Ok(), world.RunReady(); }
  void Fail() { sender().Fail(), world.RunReady(); }
  void Reject() { sender().Reject(), world.RunReady(); }
  void OkAll(std::size_t shard = 0) {
    while (!senders[shard]->pending.empty()) senders[shard]->Ok(), world.RunReady();
  }

  /// Closes every lane of a shard, cancelling what is in flight, and takes its partitions away.
  void CloseAll(std::size_t shard) {
    const auto all = [](const Lane&) { return true; };
    shards[shard]->CloseLanes(all, false, [] {});
    shards[shard]->CancelClosing();
    world.RunReady();
    shards[shard]->ForgetLanes(all);
    for (const auto& [id, feed] : feeds) shards[shard]->RemovePartition(id);
    world.RunReady();
  }

  test::FakeSender& sender(std::size_t shard = 0) { return *senders[shard]; }
  ShardStats& stats(const std::string& name = "s", std::uint32_t shard = 0) { return *Shared(name)->per_shard[shard]; }
  OffsetStore::Key Key(const std::string& name = "s", const TopicPartition& id = kPartition) { return {name, id}; }
  std::optional<Offset> NotedNext(const std::string& name = "s", const TopicPartition& id = kPartition) {
    const auto noted = offsets.noted(Key(name, id));
    return noted ? std::optional(noted->position.next) : std::nullopt;
  }
  void ExpectGaugesZero(const std::string& name = "s") {
    for (const auto& per_shard : Shared(name)->per_shard) {
      EXPECT_EQ(per_shard->in_flight.value(), 0u);
      EXPECT_EQ(per_shard->waiting_for_permit.value(), 0u);
      EXPECT_EQ(per_shard->retrying.value(), 0u);
    }
    EXPECT_EQ(Shared(name)->slots.used(), 0u);
  }

  test::ManualWorld world;
  test::FakeOffsetStore offsets;
  test::FakeDeadLetters dead_letters;
  test::FakeGuard guard;
  test::FakeReaders readers{[this](const TopicPartition& id) { return Log(id); }};
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(std::uint64_t{64} << 20);
  std::map<std::string, config::Subscription> configs;
  std::map<std::string, std::shared_ptr<SubscriptionShared>> shared;
  std::map<std::string, std::shared_ptr<ratelimit::Limiter>> limiters;
  std::map<std::shared_ptr<ratelimit::Limiter>, std::shared_ptr<PermitTurns>> turns;
  std::map<TopicPartition, std::shared_ptr<test::FakeLog>> logs;
  std::map<TopicPartition, std::shared_ptr<test::FakeFeed>> feeds;
  std::shared_ptr<LaneStats> lane_stats;
  const std::size_t ring_records;
  int cross_wakes = 0;
  std::vector<std::unique_ptr<test::FakeSender>> senders;
  std::vector<std::unique_ptr<Shard>> shards;
};

}  // namespace posthorn::delivery
