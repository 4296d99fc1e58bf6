#include "worker/delivery/dispatcher.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>
#include <variant>

#include "worker/delivery/retry_record.h"
#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

using runtime::Log;
using runtime::LogLevel;

constexpr auto kFetchTimeout = std::chrono::milliseconds(2000);

bool IsStopped(const config::Subscription& subscription, const config::Snapshot& snapshot) {
  if (subscription.paused) return true;
  for (const auto& limit : snapshot.limits) {
    if (limit.name == subscription.limit) return limit.max_rate == ratelimit::MaxRate();
  }
  return false;
}

}  // namespace

Dispatcher::Dispatcher(Parts parts) : parts_(std::move(parts)) {
  reconciler_ = std::thread([this] { ReconcileLoop(); });
}

Dispatcher::~Dispatcher() { StopReconciling(); }

void Dispatcher::StopReconciling() {
  {
    const std::lock_guard lock(wake_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (reconciler_.joinable()) reconciler_.join();
}

// ---- configuration

void Dispatcher::Apply(const config::SnapshotPtr& snapshot) {
  const auto now = parts_.clock->Read();
  parts_.limits->OnSnapshot(snapshot, now.wall);
  std::set<std::string> topics;
  bool topics_changed = false;
  {
    const std::lock_guard lock(state_);
    snapshot_ = snapshot;
    std::map<std::string, Subscription> next;
    for (const auto& config : snapshot->subscriptions) {
      topics.insert(config.topic);
      const auto known = subscriptions_.find(config.name);
      // A change of the topic is a removal and an addition.
      if (known != subscriptions_.end() && known->second.config->topic == config.topic) {
        next[config.name] = std::move(known->second);
        subscriptions_.erase(known);
        next[config.name].shared->slots.SetMax(config.max_in_flight);
      } else {
        next[config.name].shared =
            std::make_shared<SubscriptionShared>(config.name, config.max_in_flight, parts_.shards.size());
      }
      next[config.name].config = std::shared_ptr<const config::Subscription>(snapshot, &config);
    }
    if (!topics.empty() && !parts_.retry_topic.empty()) topics.insert(parts_.retry_topic);
    for (auto& [name, subscription] : subscriptions_) leaving_.push_back(std::move(subscription));
    subscriptions_ = std::move(next);
    PostSubscriptions();
    topics_changed = topics != topics_;
    topics_ = topics;
  }
  if (topics_changed) parts_.subscribe(topics);
  WantReconcile();
}

void Dispatcher::Announce(const config::SnapshotPtr& snapshot) {
  parts_.limits->OnScheduled(snapshot, parts_.clock->Read().wall);
  WakeShards();  // who waits was told a time by the shares of before
}

void Dispatcher::WantReconcile() {
  {
    const std::lock_guard lock(wake_mutex_);
    reconcile_wanted_ = true;
  }
  wake_.notify_all();
}

void Dispatcher::PostSubscriptions() {
  std::vector<SubscriptionUpdate> updates;
  decltype(turns_) turns;
  for (const auto& [name, subscription] : subscriptions_) {
    SubscriptionUpdate update;
    update.config = subscription.config;
    update.shared = subscription.shared;
    update.stopped = IsStopped(*subscription.config, *snapshot_);
    if (!subscription.config->limit.empty()) update.limiter = parts_.limits->Find(subscription.config->limit);
    if (update.limiter && parts_.shards.size() > 1) {
      auto& shared = turns[update.limiter.get()];
      if (!shared) shared = turns_[update.limiter.get()];
      if (!shared) shared = std::make_shared<PermitTurns>();
      update.turns = shared;
    }
    updates.push_back(std::move(update));
  }
  turns_ = std::move(turns);
  for (Shard* shard : parts_.shards) {
    shard->loop().Post([shard, updates] { shard->SetSubscriptions(updates); });
  }
}

void Dispatcher::WakeShards() {
  for (Shard* shard : parts_.shards) {
    shard->loop().Post([shard] { shard->PumpAll(); });
  }
}

void Dispatcher::ReconcileLoop() {
  std::unique_lock lock(wake_mutex_);
  while (!stopping_) {
    if (!reconcile_wanted_ && progress_wanted_.empty()) {
      wake_.wait(lock, [this] { return stopping_ || reconcile_wanted_ || !progress_wanted_.empty(); });
      continue;
    }
    const bool reconcile = std::exchange(reconcile_wanted_, false);
    const auto asked = std::exchange(progress_wanted_, {});
    lock.unlock();
    const bool complete = !reconcile || Reconcile();
    if (!asked.empty()) TellRetryProgress(asked);
    lock.lock();
    if (!complete) {
      reconcile_wanted_ = true;
      wake_.wait_for(lock, parts_.retry, [this] { return stopping_; });
    }
  }
}

bool Dispatcher::Reconcile() {
  const std::lock_guard structure(structure_);
  std::vector<OffsetStore::Key> missing;
  for (;;) {
    std::vector<Subscription> leaving;
    {
      const std::lock_guard lock(state_);
      leaving.swap(leaving_);
      // New lanes only when no old one is left: one that was removed and added again has both, and the new one starts
      // where the old one ends.
      if (leaving.empty()) missing = MissingLanes();
    }
    if (leaving.empty()) break;
    for (const auto& subscription : leaving) {
      // By identity, not by name: it may have been added again meanwhile.
      CloseAndFlush([&](const Lane& lane) { return lane.subscription().shared == subscription.shared; },
                    /*lost=*/false, std::chrono::milliseconds(drain_limit_.load()));
      Log(LogLevel::kInfo, "subscription removed",
          {{"subscription", subscription.shared->name}, {"partitions", subscription.lanes.size()}});
    }
  }
  if (missing.empty()) return true;
  const auto starts = StartPositions(missing);
  if (!starts) return false;
  const std::lock_guard lock(state_);
  for (const auto& start : *starts) {
    const auto owned = owned_.find(start.key.partition);
    if (owned != owned_.end()) OpenLane(start, owned->second);
  }
  return true;
}

std::vector<OffsetStore::Key> Dispatcher::MissingLanes() const {
  std::vector<OffsetStore::Key> missing;
  for (const auto& [name, subscription] : subscriptions_) {
    for (const auto& [id, owned] : owned_) {
      if (IsRetry(id) && (retry_partitions_ == 0 || subscription.not_here.count(id) != 0)) continue;
      if (Reads(subscription, id) && subscription.lanes.count(id) == 0) missing.push_back({name, id});
    }
  }
  return missing;
}

// ---- partitions

std::optional<std::vector<Dispatcher::Start>> Dispatcher::StartPositions(const std::vector<OffsetStore::Key>& keys) {
  const auto stored = parts_.offsets->Fetch(keys, kFetchTimeout);
  if (!stored) {
    Log(LogLevel::kWarning, "stored offsets cannot be read now, trying again", {{"positions", keys.size()}});
    return std::nullopt;
  }
  std::map<TopicPartition, std::pair<Offset, Offset>> bounds;
  std::vector<Start> starts;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto& key = keys[i];
    if (!(*stored)[i] && NeverHere(key)) continue;
    if (bounds.count(key.partition) == 0) {
      const auto found = parts_.offsets->Bounds(key.partition, kFetchTimeout);
      if (!found) {
        Log(LogLevel::kWarning, "bounds of a partition cannot be read now, trying again",
            {{"topic", key.partition.topic}, {"partition", key.partition.partition}});
        return std::nullopt;
      }
      bounds[key.partition] = *found;
    }
    const auto [low, end] = bounds[key.partition];
    Start start{key, 0, false, {}, {}};
    if ((*stored)[i]) {
      StartAtStored(start, *(*stored)[i], bounds[key.partition]);
    } else {
      const std::lock_guard lock(state_);
      const auto subscription = subscriptions_.find(key.subscription);
      const bool latest = subscription != subscriptions_.end() &&
                          subscription->second.config->start == config::Start::kLatest && !IsRetry(key.partition);
      start.next = latest ? end : low;
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

/// A partition of the retry topic where the subscription was never at home: nothing is read there for it. Without the
/// number of partitions nobody can tell: the lane is opened when it is known.
bool Dispatcher::NeverHere(const OffsetStore::Key& key) {
  if (!IsRetry(key.partition)) return false;
  const std::lock_guard lock(state_);
  if (retry_partitions_ == 0) return true;
  if (RetryPartition(key.subscription, retry_partitions_) == key.partition.partition) return false;
  const auto subscription = subscriptions_.find(key.subscription);
  if (subscription != subscriptions_.end()) subscription->second.not_here.insert(key.partition);
  return true;
}

void Dispatcher::StartAtStored(Start& start, const Position& stored, std::pair<Offset, Offset> bounds) {
  const auto [low, end] = bounds;
  const auto warn = [&start](std::string_view event, runtime::Field what, runtime::Field more) {
    Log(LogLevel::kWarning, event,
        {{"subscription", start.key.subscription},
         {"topic", start.key.partition.topic},
         {"partition", start.key.partition.partition},
         std::move(what),
         std::move(more)});
  };
  if (stored.next > end) {
    warn("stored offset is beyond the end of the partition: the topic was made anew", {"stored", stored.next},
         {"end", end});
    start.next = low;
    return;
  }
  start.next = stored.next;
  start.stored = true;
  start.metadata = stored.metadata;
  auto decoded = DecodeCommitState(stored.next, stored.metadata);
  const char* problem = nullptr;
  if (const auto* fault = std::get_if<CommitStateFault>(&decoded)) {
    problem = ToString(*fault);
  } else {
    start.known = std::move(std::get<CommitState>(decoded));
    // Their offsets will be given to other messages: a topic made anew, or a log cut back by an unclean election.
    if (!start.known.finished.empty() && start.known.finished.back().end > end) problem = "beyond the end of the log";
  }
  if (problem != nullptr) {
    // Left as it is until there is something to store: another version may come back and read it.
    warn("commit metadata is not used: messages finished ahead of this offset may come twice", {"offset", stored.next},
         {"problem", problem});
    start.known = {};
  }
  if (stored.next >= low) return;
  warn("messages expired in Kafka before they were delivered", {"lost_at_most", low - stored.next}, {"low", low});
  start.next = low;
  start.stored = false;
  std::erase_if(start.known.finished, [low = low](const auto& run) { return run.end <= low; });
  for (auto& run : start.known.finished) run.first = std::max(run.first, low);
  std::erase_if(start.known.tried, [low = low](const auto& tried) { return tried.offset < low; });
  start.metadata = EncodeCommitState(low, start.known);
}

void Dispatcher::OpenLane(const Start& start, Owned& owned) {
  const auto subscription = subscriptions_.find(start.key.subscription);
  if (subscription == subscriptions_.end() || !Reads(subscription->second, start.key.partition)) return;
  auto stats = std::make_shared<LaneStats>(start.key.partition, start.next);
  subscription->second.lanes[start.key.partition] = stats;
  // Where nothing was stored the start itself is: a crash before the first commit must not move it ("latest").
  parts_.offsets->Update(start.key, Position{start.next, start.metadata}, /*urgent=*/false, /*changed=*/!start.stored);
  Shard* shard = parts_.shards[owned.shard];
  shard->loop().Post(
      [shard, id = start.key.partition, lane = LaneStart{start.key.subscription, stats, start.next, start.known}] {
        shard->AddLane(id, lane);
      });
}

std::uint32_t Dispatcher::EmptiestShard() const {
  std::vector<std::size_t> load(parts_.shards.size(), 0);
  for (const auto& [id, owned] : owned_) ++load[owned.shard];
  return static_cast<std::uint32_t>(std::min_element(load.begin(), load.end()) - load.begin());
}

std::vector<Offset> Dispatcher::OnAssigned(const std::vector<std::shared_ptr<PartitionFeed>>& feeds,
                                           const std::function<bool()>& cancelled) {
  const std::lock_guard structure(structure_);
  std::vector<TopicPartition> gained;
  for (const auto& feed : feeds) gained.push_back(feed->partition());

  std::optional<std::vector<Start>> starts;
  std::vector<Offset> offsets(feeds.size(), 0);
  const auto late = parts_.clock->Read().steady + parts_.patience;
  while (!starts) {
    std::vector<OffsetStore::Key> keys;
    {
      const std::lock_guard lock(state_);
      for (const auto& [name, subscription] : subscriptions_) {
        for (const auto& id : gained) {
          if (Reads(subscription, id)) keys.push_back({name, id});
        }
      }
    }
    starts = StartPositions(keys);
    if (starts) break;
    // Without an answer nothing can start; the worker is stopping and gives the partitions back unread.
    std::unique_lock lock(wake_mutex_);
    if (cancelled() || stopping_) return offsets;
    if (parts_.clock->Read().steady >= late) {
      // The whole group waits for this member: the partitions are taken without lanes, those follow.
      starts.emplace();
      reconcile_wanted_ = true;
      break;
    }
    wake_.wait_for(lock, parts_.retry, [this] { return stopping_; });
  }
  // The one furthest back first: the feed stands there already, and the others join it.
  std::stable_sort(starts->begin(), starts->end(), [](const auto& a, const auto& b) { return a.next < b.next; });
  std::map<TopicPartition, Offset> first;
  for (const auto& start : *starts) first.try_emplace(start.key.partition, start.next);

  const auto now = parts_.clock->Read();
  parts_.limits->OnGained(gained, now.wall);
  const std::lock_guard lock(state_);
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const auto& id = gained[i];
    if (const auto found = first.find(id); found != first.end()) offsets[i] = found->second;
    const auto emptiest = EmptiestShard();
    // Those of the retry topic mostly stand empty: they take no part of the memory from the others.
    if (!IsRetry(id)) parts_.memory->parts.fetch_add(1);
    auto& owned = owned_[id];
    owned.shard = emptiest;
    owned.feed = feeds[i];
    Shard* shard = parts_.shards[owned.shard];
    shard->loop().Post([shard, feed = feeds[i], memory = std::make_shared<MemoryAccount>(parts_.memory),
                        start = offsets[i]] { shard->AddPartition(feed, memory, start); });
  }
  for (const auto& start : *starts) OpenLane(start, owned_[start.key.partition]);
  parts_.offsets->WriteAgain();
  WakeShards();
  wake_.notify_all();
  return offsets;
}

void Dispatcher::OnRevoked(const std::vector<TopicPartition>& partitions, bool lost) {
  const auto now = parts_.clock->Read();
  parts_.limits->OnRevoked(partitions, now.wall);
  if (partitions.empty()) return;
  const std::lock_guard structure(structure_);
  const std::set<TopicPartition> given_up(partitions.begin(), partitions.end());
  CloseAndFlush([&](const Lane& lane) { return given_up.count(lane.topic_partition()) != 0; }, lost,
                std::chrono::milliseconds(lost ? 0 : drain_limit_.load()));
  // A share may have ended on every shard: none of them may still be inside a pump that began before.
  OnEveryShard(
      [&](Shard& shard, std::function<void()> done) {
        for (const auto& id : partitions) shard.RemovePartition(id);
        done();
      },
      std::chrono::milliseconds::max(), nullptr);
  const std::lock_guard lock(state_);
  for (const auto& id : partitions) {
    if (owned_.erase(id) != 0 && !IsRetry(id)) parts_.memory->parts.fetch_sub(1);
    for (auto& [name, subscription] : subscriptions_) subscription.lanes.erase(id);
    for (auto& subscription : leaving_) subscription.lanes.erase(id);
  }
}

void Dispatcher::OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts) {
  parts_.limits->OnPartitionCounts(counts, parts_.clock->Read().wall);
  for (const auto& [topic, count] : counts) {
    if (count <= 0 || topic != parts_.retry_topic) continue;
    {
      const std::lock_guard lock(state_);
      if (std::exchange(retry_partitions_, count) == count) break;
      for (auto& [name, subscription] : subscriptions_) subscription.not_here.clear();
      for (Shard* shard : parts_.shards) {
        shard->loop().Post([shard, partitions = count] { shard->SetRetryPartitions(partitions); });
      }
    }
    {
      const std::lock_guard lock(wake_mutex_);
      reconcile_wanted_ = true;
    }
    wake_.notify_all();
  }
  WakeShards();
}

void Dispatcher::AskRetryProgress(const std::string& subscription) {
  {
    const std::lock_guard lock(wake_mutex_);
    progress_wanted_.insert(subscription);
  }
  wake_.notify_all();
}

/// What cannot be read now is asked for again.
void Dispatcher::TellRetryProgress(const std::set<std::string>& subscriptions) {
  std::vector<OffsetStore::Key> keys;
  {
    const std::lock_guard lock(state_);
    if (retry_partitions_ == 0) return;
    for (const auto& name : subscriptions) {
      keys.push_back({name, {parts_.retry_topic, RetryPartition(name, retry_partitions_)}});
    }
  }
  const auto stored = parts_.offsets->Fetch(keys, kFetchTimeout);
  if (!stored) return;
  std::map<TopicPartition, Offset> ends;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto& position = (*stored)[i];
    if (!position) continue;
    const auto& partition = keys[i].partition;
    if (ends.count(partition) == 0) {
      const auto bounds = parts_.offsets->Bounds(partition, kFetchTimeout);
      if (!bounds) return;
      ends[partition] = bounds->second;
    }
    RetryProgress progress;
    progress.next = position->next;
    progress.end = ends[partition];
    auto known = DecodeCommitState(position->next, position->metadata);
    if (auto* state = std::get_if<CommitState>(&known)) progress.finished = std::move(state->finished);
    for (Shard* shard : parts_.shards) {
      shard->loop().Post([shard, name = keys[i].subscription, progress] { shard->Release(name, progress); });
    }
  }
}

void Dispatcher::OnEveryShard(const std::function<void(Shard&, std::function<void()> done)>& work,
                              std::chrono::milliseconds limit, const std::function<void()>& on_timeout) {
  auto left = std::make_shared<std::atomic<std::size_t>>(parts_.shards.size());
  auto finished = std::make_shared<std::promise<void>>();
  auto future = finished->get_future();
  for (Shard* shard : parts_.shards) {
    shard->loop().Post([shard, &work, left, finished] {
      work(*shard, [left, finished] {
        if (left->fetch_sub(1) == 1) finished->set_value();
      });
    });
  }
  if (on_timeout && future.wait_for(limit) != std::future_status::ready) on_timeout();
  future.wait();  // `work` must outlive the calls; after on_timeout nothing waits for the outside any more
}

void Dispatcher::CloseAndFlush(const std::function<bool(const Lane&)>& which, bool lost,
                               std::chrono::milliseconds limit) {
  std::mutex keys_mutex;
  std::vector<OffsetStore::Key> keys;
  OnEveryShard(
      [&](Shard& shard, std::function<void()> done) {
        {
          const std::lock_guard lock(keys_mutex);
          shard.CollectKeys(which, keys);
        }
        shard.CloseLanes(which, /*commit=*/!lost, std::move(done));
      },
      limit,
      [&] {
        for (Shard* shard : parts_.shards) {
          shard->loop().Post([shard] { shard->CancelClosing(); });
        }
      });
  OnEveryShard(
      [&](Shard& shard, std::function<void()> done) {
        shard.ForgetLanes(which);
        done();
      },
      std::chrono::milliseconds::max(), nullptr);
  if (keys.empty()) return;
  if (!lost) {
    auto stored = std::make_shared<std::promise<bool>>();
    auto future = stored->get_future();
    parts_.offsets->Flush(keys, [stored](bool written) { stored->set_value(written); });
    if (future.wait_for(std::chrono::milliseconds(flush_limit_.load())) != std::future_status::ready || !future.get()) {
      Log(LogLevel::kWarning, "offsets could not be stored while giving partitions up: duplicates will follow",
          {{"positions", keys.size()}});
    }
  }
  parts_.offsets->Drop(keys);
}

// ---- views

std::vector<Dispatcher::SubscriptionView> Dispatcher::Subscriptions() const {
  const std::lock_guard lock(state_);
  std::vector<SubscriptionView> views;
  for (const auto& [name, subscription] : subscriptions_) {
    SubscriptionView view{subscription.config, subscription.shared, {}, {}};
    for (const auto& [id, lane] : subscription.lanes) {
      const auto owned = owned_.find(id);
      (IsRetry(id) ? view.retry_lanes : view.lanes)
          .push_back({id, lane->next.load(std::memory_order_relaxed),
                      owned == owned_.end() ? -1 : owned->second.feed->LogEnd(),
                      lane->reader.load(std::memory_order_relaxed), lane->taken.load(std::memory_order_relaxed)});
    }
    views.push_back(std::move(view));
  }
  return views;
}

config::SnapshotPtr Dispatcher::snapshot() const {
  const std::lock_guard lock(state_);
  return snapshot_;
}

std::vector<TopicPartition> Dispatcher::OwnedPartitions() const {
  const std::lock_guard lock(state_);
  std::vector<TopicPartition> partitions;
  for (const auto& [id, owned] : owned_) partitions.push_back(id);
  return partitions;
}

std::size_t Dispatcher::owned_partitions() const {
  const std::lock_guard lock(state_);
  return static_cast<std::size_t>(
      std::count_if(owned_.begin(), owned_.end(), [this](const auto& owned) { return !IsRetry(owned.first); }));
}

}  // namespace posthorn::delivery
