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
#include "worker/delivery/partition.h"
#include "worker/delivery/permit_queue.h"
#include "worker/delivery/retry_sink.h"
#include "worker/delivery/sender.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

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
    RetrySink* retry = nullptr;       // null: nothing is parked
    ReaderPool* readers = nullptr;    // null: no lane ever reads apart
    std::size_t ring_records = 2048;  // read ahead of the slowest lane of a partition
    MembershipGuard* guard = nullptr;
    runtime::Nanoseconds longest_gap{0};  // between two wake-ups; after a longer one the membership is asked
    std::size_t max_unfinished = Lane::kMaxUnfinished;  // between a lane's oldest unfinished and its newest message
    std::uint64_t seed = 0;
    std::function<void(std::uint32_t shard)> wake_shard;  // tells another shard that a slot may be free
    /// Called about once a second while keys of a subscription are parked; the answer comes by Release.
    std::function<void(const std::string& subscription)> ask_retry_progress;
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
  void AddPartition(const std::shared_ptr<PartitionFeed>& feed, std::shared_ptr<MemoryAccount> memory, Offset start);
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
  /// How many partitions the retry topic has; 0 (as at the start): unknown, nothing is parked.
  void SetRetryPartitions(std::int32_t partitions) { retry_partitions_ = partitions; }
  /// How far a subscription has come there.
  void Release(const std::string& subscription, const RetryProgress& progress);
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
  [[nodiscard]] RetrySink* retry() { return parts_.retry; }
  [[nodiscard]] std::int32_t retry_partitions() const { return retry_partitions_; }
  [[nodiscard]] std::size_t max_unfinished() const { return parts_.max_unfinished; }

 private:
  void EndOfWakeUp();
  void ScheduleEnd();
  void Schedule(PermitQueue& queue);
  void Tick();
  void CommitTick();
  void LookForStuck();
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
  std::int32_t retry_partitions_ = 0;
  runtime::SteadyTime last_wake_{};
  std::unique_ptr<runtime::Timer> tick_;
  runtime::SteadyTime next_commit_{};
  std::uint64_t random_state_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace posthorn::delivery
