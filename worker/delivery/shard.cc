#include "worker/delivery/shard.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

constexpr auto kTick = std::chrono::milliseconds(250);
constexpr auto kCommitInterval = std::chrono::seconds(1);

}  // namespace

Shard::Shard(Parts parts) : parts_(std::move(parts)), random_state_(parts_.seed * 2 + 1) {}

Shard::~Shard() {
  StopTicks();
  partitions_.clear();  // lanes and queues speak to the shard while they go
  subscriptions_.clear();
}

void Shard::Start() {
  const auto& now = loop().now();
  last_wake_ = now.steady;
  next_commit_ = now.steady + kCommitInterval;
  tick_ = loop().MakeTimer([this] { Tick(); });
  tick_->Arm(now.steady + kTick);
}

void Shard::StopTicks() { tick_.reset(); }

void Shard::Tick() {
  const auto& now = loop().now();
  if (MayGivePermits(now) && now.steady >= next_commit_) {
    CommitTick();
    next_commit_ = now.steady + kCommitInterval;
  }
  for (auto& [name, subscription] : subscriptions_) {
    // Whoever was let go first may have had nothing to send after all.
    if (std::exchange(subscription->yields_slots, false)) WakeWaiting(*subscription);
    subscription->health->Tick(now);
  }
  LookForStuck();
  // Room in the worker's memory may have come free on another shard.
  for (auto& [id, partition] : partitions_) Touched(*partition);
  tick_->Arm(now.steady + kTick);
}

void Shard::CommitTick() {
  std::set<std::string> parked;
  ForEachLane([&](Partition&, Lane& lane) {
    lane.Commit(/*urgent=*/false);
    if (lane.has_parked_keys() && !lane.closing()) parked.insert(lane.key().subscription);
  });
  if (!parts_.ask_retry_progress) return;
  for (const auto& subscription : parked) parts_.ask_retry_progress(subscription);
}

void Shard::LookForStuck() {
  for (auto& [id, partition] : partitions_) {
    for (auto& lane : partition->lanes) {
      if (!lane->HasRoom() || partition->IsFullFor(*lane)) lane->ParkStuck();
    }
  }
}

void Shard::Release(const std::string& subscription, const RetryProgress& progress) {
  ForEachLane([&](Partition&, Lane& lane) {
    if (lane.subscription().shared->name == subscription) lane.Release(progress);
  });
}

template <typename Visit>
void Shard::ForEachLane(Visit visit) {
  for (auto& [id, partition] : partitions_) {
    for (auto& lane : partition->lanes) visit(*partition, *lane);
  }
}

bool Shard::MayGivePermits(const runtime::Now& now) {
  // A process that stood still (SIGSTOP, swapped out, moved) may have lost everything without having heard of it.
  if (now.steady - last_wake_ > parts_.longest_gap) {
    runtime::Log(runtime::LogLevel::kWarning, "this process stood still, asking the group before going on",
                 {{"shard", parts_.index},
                  {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(now.steady - last_wake_).count()}});
    parts_.guard->Suspect();
  }
  last_wake_ = now.steady;
  return parts_.guard->Confirmed();
}

bool Shard::MayWrite(Delivery& delivery) noexcept {
  if (delivery.lane.closing()) return false;
  const auto now = parts_.clock->Read();
  if (!MayGivePermits(now)) return false;
  auto& subscription = delivery.lane.subscription();
  auto* limiter = subscription.permits->limiter();
  if (limiter == nullptr) return true;
  if (limiter != delivery.permit_of) return false;  // the subscription has changed its limit: this permit is not its
  const auto label = limiter->Renew(now.wall, delivery.label);
  if (!label) return false;
  if (*label != delivery.label) {
    delivery.label = *label;
    auto& stats = subscription.stats(index());
    stats.not_sent.Add(1);  // the permit of the window that has passed
    stats.attempts_by_label.Add(*label);
  }
  return true;
}

double Shard::Random() {
  // splitmix64: jitter needs no more.
  random_state_ += 0x9E3779B97F4A7C15ULL;
  auto z = random_state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

// ---- subscriptions

std::shared_ptr<PermitQueue> Shard::QueueFor(const SubscriptionUpdate& update, const SubscriptionOnShard& subscription,
                                             QueuesByLimiter& queues) {
  if (!update.limiter) {
    const auto& own = subscription.permits;
    return own && own->limiter() == nullptr ? own : std::make_shared<PermitQueue>(*this, nullptr, nullptr);
  }
  auto& queue = queues[update.limiter.get()];
  if (!queue) queue = std::make_shared<PermitQueue>(*this, update.limiter, update.turns);
  return queue;
}

void Shard::SetSubscriptions(const std::vector<SubscriptionUpdate>& updates) {
  std::map<std::string, std::shared_ptr<SubscriptionOnShard>> kept;
  QueuesByLimiter queues;
  for (const auto& [name, subscription] : subscriptions_) {
    if (auto* limiter = subscription->permits->limiter()) queues[limiter] = subscription->permits;
  }
  for (const auto& update : updates) {
    auto& known = subscriptions_[update.config->name];
    if (!known || known->shared != update.shared) {
      if (known) Stop(*known);  // removed and added again: the old lanes drain on their own
      known = std::make_shared<SubscriptionOnShard>();
      known->shared = update.shared;
      known->health = std::make_unique<HealthGate>(*this, *known);
    }
    if (!known->config || !(*known->config == *update.config)) {
      known->target = sender().Prepare(*update.config);
    }
    known->config = update.config;
    MoveToQueue(*known, QueueFor(update, *known, queues));
    if (update.stopped) {
      Stop(*known);
    } else if (known->stopped) {
      Resume(*known);
    }
    kept[update.config->name] = known;
  }
  for (auto& [name, subscription] : subscriptions_) {
    // Its lanes are closed by the dispatcher; nothing new starts from now on.
    if (kept.find(name) == kept.end()) Stop(*subscription);
  }
  subscriptions_ = std::move(kept);
  PumpAll();
}

void Shard::MoveToQueue(SubscriptionOnShard& subscription, const std::shared_ptr<PermitQueue>& queue) {
  if (subscription.permits == queue) return;
  if (subscription.permits) {
    ForEachLane([&](Partition&, Lane& lane) {
      if (&lane.subscription() == &subscription && lane.queued_in != nullptr) lane.queued_in->Remove(lane);
    });
    to_pump_.erase(std::remove(to_pump_.begin(), to_pump_.end(), subscription.permits.get()), to_pump_.end());
    subscription.permits->scheduled = false;
  }
  subscription.permits = queue;
}

/// A stopped subscription must not hold up the others of its topic.
void Shard::Stop(SubscriptionOnShard& subscription) {
  if (subscription.stopped) return;
  subscription.stopped = true;
  ForEachLane([&](Partition& partition, Lane& lane) {
    if (&lane.subscription() != &subscription) return;
    if (lane.queued_in != nullptr) lane.queued_in->Remove(lane);
    partition.Leave(lane);
  });
}

void Shard::Resume(SubscriptionOnShard& subscription) {
  subscription.stopped = false;
  ForEachLane([&](Partition& partition, Lane& lane) {
    if (&lane.subscription() != &subscription || lane.closing()) return;
    partition.Join(lane);
  });
}

// ---- partitions and lanes

void Shard::AddPartition(const std::shared_ptr<PartitionFeed>& feed, std::shared_ptr<MemoryAccount> memory,
                         Offset start) {
  const auto id = feed->partition();
  auto& partition = partitions_[id];
  partition = std::make_unique<Partition>(*this, feed, std::move(memory), start, parts_.readers, parts_.ring_records);
  partition->retry = parts_.retry != nullptr && id.topic == parts_.retry->topic();
  feed->OnReadable([&shard_loop = loop(), this, id, alive = std::weak_ptr<bool>(alive_)] {
    shard_loop.Post([this, id, alive] {
      if (alive.expired()) return;
      const auto it = partitions_.find(id);
      if (it == partitions_.end()) return;
      it->second->OnReadable();
      Touched(*it->second);
    });
  });
  Touched(*partition);
}

void Shard::AddLane(const TopicPartition& id, const LaneStart& start) {
  const auto it = partitions_.find(id);
  const auto subscription = subscriptions_.find(start.subscription);
  if (it == partitions_.end() || subscription == subscriptions_.end()) return;  // given up meanwhile
  auto& partition = *it->second;
  auto& lane = *partition.lanes.emplace_back(
      std::make_unique<Lane>(*this, subscription->second, start.stats, partition, start.next, start.known));
  if (!subscription->second->stopped) partition.Join(lane);
  Wake(lane);
  Touched(partition);
}

void Shard::CloseLanes(const std::function<bool(const Lane&)>& which, bool commit, std::function<void()> drained) {
  std::vector<Lane*> closing;
  ForEachLane([&](Partition&, Lane& lane) {
    if (which(lane) && !lane.closing()) closing.push_back(&lane);
  });
  if (closing.empty()) {
    drained();
    return;
  }
  const auto left = std::make_shared<std::size_t>(closing.size());
  const auto all = std::make_shared<std::function<void()>>(std::move(drained));
  for (Lane* lane : closing) {
    if (lane->queued_in != nullptr) lane->queued_in->Remove(*lane);
    lane->Close(/*lost=*/!commit, [lane, left, all] {
      lane->Commit(/*urgent=*/true);
      if (--*left == 0) (*all)();
    });
  }
}

void Shard::CollectKeys(const std::function<bool(const Lane&)>& which, std::vector<OffsetStore::Key>& keys) {
  ForEachLane([&](Partition&, Lane& lane) {
    if (which(lane)) keys.push_back(lane.key());
  });
}

void Shard::CancelClosing() {
  std::vector<Lane*> closing;
  ForEachLane([&](Partition&, Lane& lane) {
    if (lane.closing()) closing.push_back(&lane);
  });
  for (Lane* lane : closing) lane->CancelInFlight();
}

void Shard::ForgetLanes(const std::function<bool(const Lane&)>& which) {
  for (auto& [id, partition] : partitions_) {
    auto& lanes = partition->lanes;
    for (auto& lane : lanes) {
      if (!lane->closing() || !which(*lane)) continue;
      auto& waiting = lane->subscription().waiting_for_slot;
      waiting.erase(std::remove(waiting.begin(), waiting.end(), lane.get()), waiting.end());
      partition->Leave(*lane);
      lane.reset();
    }
    lanes.erase(std::remove(lanes.begin(), lanes.end(), nullptr), lanes.end());
    Touched(*partition);
  }
}

void Shard::RemovePartition(const TopicPartition& id) {
  const auto it = partitions_.find(id);
  if (it == partitions_.end()) return;
  assert(it->second->lanes.empty());
  it->second->Close();
  touched_.erase(std::remove(touched_.begin(), touched_.end(), it->second.get()), touched_.end());
  partitions_.erase(it);
}

// ---- the wake-up

void Shard::Wake(Lane& lane) {
  if (lane.queued_in == nullptr && !lane.waits_for_slot && !lane.held_back && !lane.closing() &&
      !lane.subscription().stopped) {
    lane.subscription().permits->Add(lane);
  }
  Schedule(*lane.subscription().permits);
}

void Shard::Schedule(PermitQueue& queue) {
  if (!queue.scheduled) {
    queue.scheduled = true;
    to_pump_.push_back(&queue);
  }
  ScheduleEnd();
}

void Shard::Touched(Partition& partition) {
  if (!partition.touched) {
    partition.touched = true;
    touched_.push_back(&partition);
  }
  ScheduleEnd();
}

void Shard::ScheduleEnd() {
  if (end_scheduled_) return;
  end_scheduled_ = true;
  loop().Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) EndOfWakeUp();
  });
}

void Shard::EndOfWakeUp() {
  const auto& now = loop().now();
  end_scheduled_ = false;
  // Refilling wakes lanes, starting attempts consumes from rings: one round each, the rest is another wake-up.
  touched_now_.swap(touched_);
  for (Partition* partition : touched_now_) {
    partition->touched = false;
    partition->Refill(now);
  }
  touched_now_.clear();
  pumped_now_.swap(to_pump_);
  for (PermitQueue* queue : pumped_now_) {
    queue->scheduled = false;
    queue->Pump(now);
  }
  pumped_now_.clear();
}

void Shard::Forget(PermitQueue& queue) {
  to_pump_.erase(std::remove(to_pump_.begin(), to_pump_.end(), &queue), to_pump_.end());
}

void Shard::PumpAll() {
  for (auto& [name, subscription] : subscriptions_) {
    subscription->yields_slots = false;
    subscription->shared->slots.WantNone(index());
    WakeWaiting(*subscription);
  }
  ForEachLane([this](Partition&, Lane& lane) { Wake(lane); });
}

/// All of them, not one for the slot that came free: who is woken may turn out to have nothing to send.
void Shard::WakeWaiting(SubscriptionOnShard& subscription) {
  if (subscription.waiting_for_slot.empty()) return;
  subscription.shared->slots.WantNone(index());
  auto waiting = std::move(subscription.waiting_for_slot);
  subscription.waiting_for_slot.clear();
  for (Lane* lane : waiting) {
    lane->waits_for_slot = false;
    if (!lane->closing()) Wake(*lane);
  }
}

void Shard::ReleaseSlot(SubscriptionOnShard& subscription, bool used) {
  const auto waiting = subscription.shared->slots.Release();
  const auto others = waiting & ~(std::uint64_t{1} << index());
  --subscription.slots_held;
  if (subscription.slots_held == 0 && used && others != 0 && subscription.shared->slots.Scarce(others)) {
    subscription.yields_slots = true;
  }
  WakeWaiting(subscription);
  if (others == 0) return;
  for (std::uint32_t shard = 0; shard < 64; ++shard) {
    if (((others >> shard) & 1U) != 0) parts_.wake_shard(shard);
  }
}

}  // namespace posthorn::delivery
