#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/delivery/dead_letter_sink.h"
#include "worker/delivery/feed.h"
#include "worker/delivery/lane.h"
#include "worker/delivery/limits.h"
#include "worker/delivery/offset_store.h"
#include "worker/delivery/permit_queue.h"
#include "worker/delivery/sender.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

/// One owned partition on its shard: the feed, what was read from it, the lanes that read it.
struct Partition {
  TopicPartition id;
  std::shared_ptr<PartitionFeed> feed;
  std::shared_ptr<MemoryAccount> memory;
  PartitionRing ring;
  Offset next_to_read = 0;  // what the feed yields next is not below this
  bool readable = true;     // the feed may have messages
  bool touched = false;     // stands in the shard's list of partitions to look at
  std::vector<std::unique_ptr<Lane>> lanes;
};

/// A subscription as a shard is told of it.
struct SubscriptionUpdate {
  std::shared_ptr<const config::Subscription> config;
  std::shared_ptr<SubscriptionShared> shared;
  std::shared_ptr<ratelimit::Limiter> limiter;  // null: no max-rate
  std::shared_ptr<PermitTurns> turns = {};      // of the limiter; null: no other shard
  bool stopped = false;                         // paused, or its max-rate is 0
};

/// A lane to open.
struct LaneStart {
  std::string subscription;
  std::shared_ptr<LaneStats> stats;
  Offset next = 0;
  CommitState known = {};  // of the messages from `next` on
};

/// One thread's part of the worker: its partitions, their lanes, the queues for permits, and the HTTP sender.
///
/// What happens in one wake-up is collected (lanes that may start attempts, partitions to refill) and done once at its
/// end.
/// Threads  Everything on the loop's thread but where said otherwise.
/// Lifetime Closed lane by lane (CloseLanes) before it is destroyed, on the loop's thread or after the loop has ended.
class Shard {
 public:
  struct Parts {
    std::uint32_t index = 0;
    runtime::Loop* loop = nullptr;
    runtime::Clock* clock = nullptr;
    Sender* sender = nullptr;
    OffsetStore* offsets = nullptr;
    DeadLetterSink* dead_letters = nullptr;
    MembershipGuard* guard = nullptr;
    runtime::Nanoseconds longest_gap{0};  // between two wake-ups; after a longer one the membership is asked
    std::uint64_t seed = 0;
    std::function<void(std::uint32_t shard)> wake_shard;  // tells another shard that a slot may be free
  };
  explicit Shard(Parts parts);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  /// Starts the ticks (commits every second, sign of life).
  void Start();
  void StopTicks();

  // What the dispatcher tells a shard.
  void SetSubscriptions(const std::vector<SubscriptionUpdate>& subscriptions);
  void AddPartition(std::shared_ptr<PartitionFeed> feed, std::shared_ptr<MemoryAccount> memory, Offset start);
  void AddLane(const TopicPartition& id, const LaneStart& start);
  /// Closes the lanes for which `which` holds; `drained` is called when all of them are done, at once when there are
  /// none. `commit`: their last positions are noted in the offset store before.
  void CloseLanes(const std::function<bool(const Lane&)>& which, bool commit, std::function<void()> drained);
  void CollectKeys(const std::function<bool(const Lane&)>& which, std::vector<OffsetStore::Key>& keys);
  /// Ends what closing lanes still wait for, see Lane::CancelInFlight.
  void CancelClosing();
  /// Forgets closed lanes for which `which` holds. They must be drained.
  void ForgetLanes(const std::function<bool(const Lane&)>& which);
  void RemovePartition(const TopicPartition& id);
  /// Everything may start that can: the plan of a limit changed, slots came free, the membership was confirmed.
  void PumpAll();

  // For lanes and permit queues.
  void Wake(Lane& lane);
  void Touched(Partition& partition);
  void Forget(PermitQueue& queue);
  /// `used`: by an attempt. With fewer slots than shards one that gave its last one back lets the others go first.
  void ReleaseSlot(SubscriptionOnShard& subscription, bool used);
  [[nodiscard]] bool MayWrite(Delivery& delivery) noexcept;
  [[nodiscard]] bool MayGivePermits(const runtime::Now& now);
  [[nodiscard]] double Random();  // uniform in [0, 1)

  [[nodiscard]] std::uint32_t index() const { return parts_.index; }
  [[nodiscard]] runtime::Loop& loop() { return *parts_.loop; }
  [[nodiscard]] Sender& sender() { return *parts_.sender; }
  [[nodiscard]] OffsetStore& offsets() { return *parts_.offsets; }
  [[nodiscard]] DeadLetterSink& dead_letters() { return *parts_.dead_letters; }

 private:
  void EndOfWakeUp();
  void ScheduleEnd();
  void Refill(Partition& partition);
  void Schedule(PermitQueue& queue);
  void Rewind(Partition& partition, Offset to);
  [[nodiscard]] PartitionRing::Sequence CursorFor(Partition& partition, Offset next);
  void Tick();
  void CommitTick();
  void MoveToQueue(SubscriptionOnShard& subscription, const std::shared_ptr<PermitQueue>& queue);
  using QueuesByLimiter = std::map<const ratelimit::Limiter*, std::shared_ptr<PermitQueue>>;
  [[nodiscard]] std::shared_ptr<PermitQueue> QueueFor(const SubscriptionUpdate& update,
                                                      const SubscriptionOnShard& subscription, QueuesByLimiter& queues);
  void Stop(SubscriptionOnShard& subscription);
  void Resume(SubscriptionOnShard& subscription);
  void WakeWaiting(SubscriptionOnShard& subscription);
  template <typename Visit>
  void ForEachLane(Visit visit);

  Parts parts_;
  std::map<std::string, std::shared_ptr<SubscriptionOnShard>> subscriptions_;
  std::map<TopicPartition, std::unique_ptr<Partition>> partitions_;
  std::vector<PermitQueue*> to_pump_;
  std::vector<Partition*> touched_;
  std::vector<PermitQueue*> pumped_now_;
  std::vector<Partition*> touched_now_;
  bool end_scheduled_ = false;
  runtime::SteadyTime last_wake_{};
  std::unique_ptr<runtime::Timer> tick_;
  runtime::SteadyTime next_commit_{};
  std::uint64_t random_state_;
  std::vector<RecordPtr> read_buffer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace posthorn::delivery
