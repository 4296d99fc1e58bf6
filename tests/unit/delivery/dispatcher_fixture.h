#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fake_dead_letters.h"
#include "tests/support/fake_feed.h"
#include "tests/support/fake_guard.h"
#include "tests/support/fake_offset_store.h"
#include "tests/support/fake_readers.h"
#include "tests/support/fake_retry_sink.h"
#include "tests/support/fake_sender.h"
#include "tests/support/manual_loop.h"
#include "worker/delivery/dispatcher.h"
#include "worker/fleet/limit_book.h"

namespace posthorn::delivery {

inline const TopicPartition kA0{"a", 0};
inline const TopicPartition kA1{"a", 1};
inline const OffsetStore::Key kKey{"s", kA0};

/// A dispatcher over two shards on manual loops, with real limits and everything outside faked. Calls that wait for
/// shards run on a thread of their own while the test's thread runs the loops.
class DispatcherBench {
 public:
  /// `retry_topic`: empty for a fleet without one. `max_unfinished`: the bound of each lane.
  explicit DispatcherBench(std::string retry_topic = {}, std::size_t max_unfinished = Lane::kMaxUnfinished,
                           std::size_t ring_records = 2048)
      : retry(retry_topic) {
    retry.append = [this](std::int32_t partition, test::FakeLog::Entry entry) {
      const TopicPartition id{retry.topic(), partition};
      const auto offset = Log(id)->Append(std::move(entry));
      if (const auto feed = feeds.find(id); feed != feeds.end()) feed->second->Wake();
      return offset;
    };
    for (std::uint32_t i = 0; i < 2; ++i) {
      senders.push_back(std::make_unique<test::FakeSender>(world.clock));
      Shard::Parts parts;
      parts.index = i;
      parts.loop = &world.MakeLoop();
      parts.clock = &world.clock;
      parts.sender = senders.back().get();
      parts.offsets = &offsets;
      parts.dead_letters = &dead_letters;
      parts.guard = &guard;
      parts.max_unfinished = max_unfinished;
      if (!retry_topic.empty()) parts.retry = &retry;
      parts.ask_retry_progress = [this](const std::string& subscription) { on_ask_progress(subscription); };
      parts.readers = &readers;
      parts.ring_records = ring_records;
      parts.longest_gap = std::chrono::seconds(20);
      parts.seed = i;
      parts.wake_shard = [this](std::uint32_t shard) {
        shards.at(shard)->loop().Post([this, shard] { shards[shard]->PumpAll(); });
      };
      shards.push_back(std::make_unique<Shard>(std::move(parts)));
      shards.back()->Start();
    }
    offsets.on_drop = [this] { world.Notify(); };
    offsets.on_fetch = [this] { world.Notify(); };
    offsets.SetBounds([this](const TopicPartition& id) {
      const std::lock_guard lock(bounds_mutex);
      const auto it = bounds.find(id);
      return it == bounds.end() ? std::pair<Offset, Offset>(0, 1'000'000) : it->second;
    });
    Dispatcher::Parts parts;
    for (auto& shard : shards) parts.shards.push_back(shard.get());
    parts.clock = &world.clock;
    parts.limits = &limits;
    parts.offsets = &offsets;
    parts.memory = memory;
    parts.retry_topic = retry_topic;
    parts.subscribe = [this](std::set<std::string> topics) { subscribed.push_back(std::move(topics)); };
    parts.retry = std::chrono::milliseconds(1);
    dispatcher = std::make_unique<Dispatcher>(std::move(parts));
    dispatcher->SetDrainLimit(std::chrono::minutes(1));
    guard.OnConfirmed([this] { dispatcher->WakeShards(); });
    snapshot.instances = 1;
  }
  ~DispatcherBench() {
    dispatcher->SetDrainLimit(std::chrono::milliseconds(0));
    world.RunBeside([this] { dispatcher->StopReconciling(); });
    std::vector<TopicPartition> all;
    for (const auto& [id, feed] : feeds) all.push_back(id);
    if (!all.empty()) Revoke(all, true);
    world.RunReady();
    dispatcher.reset();
    shards.clear();
  }

  config::Subscription& Sub(const std::string& name, const std::string& topic = "") {
    for (auto& known : snapshot.subscriptions) {
      if (known.name == name) {
        if (!topic.empty()) known.topic = topic;
        return known;
      }
    }
    auto& added = snapshot.subscriptions.emplace_back();
    added.name = name;
    added.topic = topic;
    added.endpoint = "http://" + name;
    added.backoff.jitter = config::Jitter::kNone;
    return added;
  }
  void RemoveSub(const std::string& name) {
    std::erase_if(snapshot.subscriptions, [&](const auto& s) { return s.name == name; });
  }
  void SetLimit(const std::string& name, std::string_view rate) {
    std::erase_if(snapshot.limits, [&](const auto& l) { return l.name == name; });
    config::Limit limit;
    limit.name = name;
    limit.max_rate = ratelimit::MaxRate::Parse(rate, nullptr).value();
    limit.burst = config::Burst::kWindow;
    snapshot.limits.push_back(limit);
  }
  void Apply() {
    dispatcher->Apply(std::make_shared<const config::Snapshot>(snapshot));
    world.RunReady();
  }
  /// Waits until the reconciler has opened every lane there should be.
  [[nodiscard]] bool AwaitLanes() {
    const bool all = world.Await([&] {
      for (const auto& view : dispatcher->Subscriptions()) {
        std::size_t wanted = 0;
        for (const auto& [id, feed] : feeds) wanted += id.topic == view.config->topic ? 1 : 0;
        if (view.lanes.size() != wanted) return false;
      }
      return true;
    });
    world.RunReady();
    return all;
  }
  [[nodiscard]] bool AwaitDrops(const OffsetStore::Key& key, int n) {
    return world.Await([&] { return offsets.drops(key) >= n; });
  }

  std::shared_ptr<test::FakeLog> Log(const TopicPartition& id) {
    auto& log = logs[id];
    if (!log) log = std::make_shared<test::FakeLog>();
    return log;
  }
  void Append(const TopicPartition& id, std::size_t n = 1) {
    Log(id)->AppendMany(n);
    if (const auto feed = feeds.find(id); feed != feeds.end()) feed->second->Wake();
    readers.Wake();
    world.RunReady();
  }
  std::vector<Offset> Assign(const std::vector<TopicPartition>& ids) {
    std::vector<std::shared_ptr<PartitionFeed>> gained;
    for (const auto& id : ids) {
      feeds[id] = std::make_shared<test::FakeFeed>(id, Log(id));
      gained.push_back(feeds[id]);
    }
    std::vector<Offset> starts;
    world.RunBeside([&] { starts = dispatcher->OnAssigned(gained, [this] { return cancelled.load(); }); });
    for (std::size_t i = 0; i < ids.size(); ++i) feeds[ids[i]]->StartAt(starts.at(i));
    world.RunReady();
    return starts;
  }
  void Revoke(const std::vector<TopicPartition>& ids, bool lost = false) {
    world.RunBeside([&] { dispatcher->OnRevoked(ids, lost); });
    for (const auto& id : ids) feeds.erase(id);
  }

  [[nodiscard]] std::size_t pending() const { return senders[0]->pending.size() + senders[1]->pending.size(); }
  void OkAll() {
    while (pending() > 0) {
      for (auto& sender : senders) {
        while (!sender->pending.empty()) sender->Ok();
      }
      world.RunReady();
    }
  }
  [[nodiscard]] std::optional<Offset> Next(const std::string& name, const TopicPartition& id) const {
    for (const auto& view : dispatcher->Subscriptions()) {
      if (view.config->name != name) continue;
      for (const auto& lane : view.lanes) {
        if (lane.partition == id) return lane.next;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> Written() const {
    std::vector<std::string> all;
    for (const auto& sender : senders) {
      for (const auto& w : sender->written) {
        all.push_back(w.subscription + " " + w.partition.topic + "/" + std::to_string(w.partition.partition) + "@" +
                      std::to_string(w.offset));
      }
    }
    return all;
  }

  test::ManualWorld world;
  test::FakeOffsetStore offsets;
  test::FakeDeadLetters dead_letters;
  test::FakeGuard guard;
  test::FakeRetrySink retry;
  std::function<void(const std::string&)> on_ask_progress = [this](const std::string& subscription) {
    dispatcher->AskRetryProgress(subscription);
  };
  test::FakeReaders readers{[this](const TopicPartition& id) { return Log(id); }};
  fleet::LimitBook limits{{0, 0, {}}};
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(std::uint64_t{64} << 20);
  config::Snapshot snapshot;
  std::vector<std::set<std::string>> subscribed;
  std::map<TopicPartition, std::shared_ptr<test::FakeLog>> logs;
  std::map<TopicPartition, std::shared_ptr<test::FakeFeed>> feeds;
  std::mutex bounds_mutex;
  std::map<TopicPartition, std::pair<Offset, Offset>> bounds;
  std::atomic<bool> cancelled{false};
  std::vector<std::unique_ptr<test::FakeSender>> senders;
  std::vector<std::unique_ptr<Shard>> shards;
  std::unique_ptr<Dispatcher> dispatcher;
};

}  // namespace posthorn::delivery
