#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ratelimit/limiter.h"
#include "worker/delivery/commit_state.h"
#include "worker/delivery/dead_letter_sink.h"
#include "worker/delivery/health_gate.h"
#include "worker/delivery/key_order.h"
#include "worker/delivery/offset_store.h"
#include "worker/delivery/offset_tracker.h"
#include "worker/delivery/partition_ring.h"
#include "worker/delivery/sender.h"
#include "worker/delivery/stats.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

class Lane;
class Partition;
class PermitQueue;
class Shard;

/// One subscription on one shard: what all its lanes there have in common. Swapped fields change with a new revision.
struct SubscriptionOnShard {
  std::shared_ptr<const config::Subscription> config;
  std::shared_ptr<SubscriptionShared> shared;
  std::shared_ptr<Target> target;
  std::shared_ptr<PermitQueue> permits;
  std::unique_ptr<HealthGate> health;
  std::deque<Lane*> waiting_for_slot;
  std::uint32_t slots_held = 0;  // of shared->slots, by this shard
  bool yields_slots = false;     // it is another shard's turn
  bool stopped = false;          // paused, max-rate 0 or removed: no new attempts
  [[nodiscard]] ShardStats& stats(std::uint32_t shard) const { return *shared->per_shard[shard]; }
};

/// One message on its way to one subscriber: from the moment its lane takes it until it is finished.
class Delivery final : public AttemptHandler {
 public:
  explicit Delivery(Lane& owner) : lane(owner) {}
  [[nodiscard]] bool OnBeforeWrite() noexcept override;
  void OnFinished(const Response& response) noexcept override;

  Lane& lane;
  RecordPtr record;
  std::size_t slot = 0;  // index in Lane::all_
  OffsetTracker::Ticket ticket = 0;
  std::uint32_t attempts = 0;                         // those taken back do not count
  std::optional<runtime::SteadyTime> could_be_tried;  // the first permit: the TTL's start (`ttl_from: read`)
  runtime::WallTime started{};                        // the attempt in flight
  std::optional<runtime::WallTime> first_attempt;
  std::optional<runtime::WallTime> last_attempt;  // by this worker
  runtime::SteadyTime due{};                      // no attempt before
  std::optional<KeyOrder::Key> order_key;         // unset: waits for no other message
  Delivery* behind = nullptr;                     // next of its key; written by KeyOrder only
  ratelimit::Label label = 0;                     // of the permit in use
  const ratelimit::Limiter* permit_of = nullptr;  // compared only
  int last_status = 0;
  std::string last_error;
  enum class State : std::uint8_t { kHeld, kReady, kInFlight, kWaiting, kDeadLetter, kParking } state = State::kReady;
  DeadLetterReason reason = DeadLetterReason::kExpired;
};

/// A subscription on one partition: cursor, in-flight, retries, what is finished.
///
/// Order    As configured, and changed live: `none`: retries that are due go before new messages, otherwise by offset,
///          any number in flight. `key`: a message is held until those of its key before it are finished. `partition`:
///          none is taken before the one before is finished. After a change what is in flight is awaited.
/// Bound    Between the oldest unfinished and the newest message taken lie at most max_unfinished of the shard, held
/// ones
///          included. A message that keeps a lane from going on although others get through is parked: written to the
///          retry topic, where the subscription's lane of that topic carries it on, and finished here. With `key`,
///          later ones of its key follow it there until it is finished. (lane_parking.cc)
/// Memory   At most Partition::MostHeldByLane bytes.
/// Threads  The owning shard's.
class Lane {
 public:
  static constexpr std::size_t kMaxUnfinished = 10'000;  // unless the shard says otherwise
  static constexpr std::uint64_t kCommitEvery = 1'000;   // finished messages, whatever the time

  /// `known`: what is stored of the messages from `next` on.
  Lane(Shard& shard, std::shared_ptr<SubscriptionOnShard> subscription, std::shared_ptr<LaneStats> stats,
       Partition& partition, Offset next, CommitState known);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// The next message to attempt, null when there is none now. Expired ones are finished on the way.
  Delivery* Head(const runtime::Now& now);
  /// Starts the attempt of Head() with a permit of `label`.
  void StartAttempt(const runtime::Now& now, ratelimit::Label label);
  void FinishAttempt(Delivery& delivery, const Response& response);

  /// No new attempts from now on; `drained` is called once nothing is in flight and nothing is being written.
  /// `lost`: the partition belongs to somebody else already, so that nothing is committed any more.
  void Close(bool lost, std::function<void()> drained);
  /// Ends what is still in flight and waits for no record any more that is being written; used when waiting for Close
  /// took too long or the partition is lost. Nothing of it counts as finished: it comes again.
  void CancelInFlight();

  /// Parks what is stuck: the lane or its partition has no room left.
  void ParkStuck();
  /// Messages that were parked are finished: their keys may go on here.
  void Release(const RetryProgress& progress);
  [[nodiscard]] bool has_parked_keys() const { return !parked_keys_.empty(); }

  /// Tells the offset store how far the lane has come and what it knows beyond, when that has changed.
  void Commit(bool urgent);
  // Which ring the lane reads, if any; written by Partition only, as what ShowReader says.
  void Detach();
  void Attach(const PartitionRing& ring, PartitionRing::Sequence cursor, LaneReader reader);
  void ShowReader(LaneReader reader) { stats_->reader.store(reader, std::memory_order_relaxed); }
  /// Everything it holds counts against `account` from now on.
  void ChargeHeldTo(const std::shared_ptr<MemoryAccount>& account) const;

  [[nodiscard]] bool Reads(const PartitionRing& ring) const { return ring_ == &ring && !closing_; }
  [[nodiscard]] bool closing() const { return closing_; }
  [[nodiscard]] PartitionRing::Sequence cursor() const { return cursor_; }
  /// First offset this lane still has to take from the ring.
  [[nodiscard]] Offset next_to_take() const { return next_to_take_; }
  [[nodiscard]] Offset committable() const { return tracker_.next(); }
  [[nodiscard]] const TopicPartition& topic_partition() const { return stats_->partition; }
  [[nodiscard]] SubscriptionOnShard& subscription() { return *subscription_; }
  [[nodiscard]] const SubscriptionOnShard& subscription() const { return *subscription_; }
  [[nodiscard]] OffsetStore::Key key() const { return {subscription_->shared->name, stats_->partition}; }
  [[nodiscard]] Shard& shard() { return shard_; }
  [[nodiscard]] bool HasRoom() const;
  [[nodiscard]] bool IsHalfEmpty() const;
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }

  // Where the lane stands on its way to a permit; written by PermitQueue, HealthGate and Shard only.
  PermitQueue* queued_in = nullptr;
  bool waits_for_slot = false;
  bool held_back = false;

 private:
  Delivery* Take();
  void SetNextToTake(Offset offset) {
    next_to_take_ = offset;
    stats_->taken.store(offset, std::memory_order_relaxed);
  }
  /// Less than that many messages, and less than that part of the bytes a lane may hold.
  [[nodiscard]] bool Holds(std::size_t messages, std::size_t part) const;
  [[nodiscard]] std::optional<Offset> FinishedBefore(Offset offset);
  void Recall(Delivery& delivery);
  void PutBack(Delivery& delivery);
  [[nodiscard]] CommitState::Tried Known(const Delivery& delivery) const;
  [[nodiscard]] CommitState State() const;
  [[nodiscard]] bool Exhausted(const Delivery& delivery) const;
  [[nodiscard]] runtime::Nanoseconds TimeLeft(const Delivery& delivery, const runtime::Now& now) const;
  [[nodiscard]] bool MayTake() const;
  [[nodiscard]] std::optional<KeyOrder::Key> OrderKey(const Record& record) const;
  void Admit(Delivery& delivery);
  void AdmitAgain(Delivery& delivery);
  void Reorder();
  void Queue(Delivery& delivery);
  void MakeReady(Delivery& delivery);
  void Retry(Delivery& delivery, const Response& response, const runtime::Now& now);
  void WaitUntil(Delivery& delivery, runtime::SteadyTime due);
  void GiveUp(Delivery& delivery, DeadLetterReason reason);
  void WriteDeadLetter(Delivery& delivery);
  void OnDeadLetterDone(Delivery& delivery, bool written);
  void Finish(Delivery& delivery, bool through);
  [[nodiscard]] bool OfOthers(const Record& record) const;
  [[nodiscard]] bool MustFollow(const Delivery& delivery) const;
  void Park(Delivery& delivery);
  void OnParked(Delivery& delivery, std::optional<Offset> at);
  void WaitToPark(Delivery& delivery);
  void MakeHeap();
  void OnRetryTimer();
  void ArmRetryTimer();
  void CheckDrained();
  std::unique_ptr<Delivery> Remove(Delivery& delivery);
  void UpdateGauges();
  void LogFailure(const Delivery& delivery, const Response& response, const runtime::Now& now);

  Shard& shard_;
  std::shared_ptr<SubscriptionOnShard> subscription_;
  std::shared_ptr<LaneStats> stats_;
  Partition& partition_;
  const PartitionRing* ring_ = nullptr;
  PartitionRing::Sequence cursor_ = 0;
  Offset next_to_take_;
  bool closing_ = false;
  bool lost_ = false;
  bool cancelling_ = false;
  std::function<void()> drained_;

  config::Ordering ordering_;  // in force here; follows the configuration in Head
  KeyOrder order_;
  ParkedKeys parked_keys_;
  OffsetTracker tracker_;
  std::uint64_t finished_since_commit_ = 0;
  Offset committed_;
  bool state_changed_ = false;                       // what Commit tells besides the position
  std::deque<OffsetRange> finished_before_;          // by whoever had the partition before, not read again yet
  std::map<Offset, CommitState::Tried> remembered_;  // tried before; not taken yet, or put back when the lane closes

  std::vector<std::unique_ptr<Delivery>> all_;  // unordered; Delivery::slot is its index
  std::vector<std::unique_ptr<Delivery>> spare_;
  std::deque<Delivery*> ready_;
  std::vector<Delivery*> waiting_;  // heap by due
  std::size_t held_bytes_ = 0;      // of all_
  std::size_t in_flight_ = 0;
  std::size_t writing_ = 0;  // dead letters, and messages being parked
  std::unique_ptr<runtime::Timer> retry_timer_;
  std::uint64_t shown_ready_ = 0, shown_waiting_ = 0, shown_in_flight_ = 0,
                shown_parked_ = 0;                              // what the gauges count of this lane
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for answers of the dead-letter sink
};

}  // namespace posthorn::delivery
