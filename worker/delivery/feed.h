#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// The unread messages of one assigned partition. Not reading is the backpressure: nothing is paused.
///
/// Threads  `Read`, `SeekTo` and `OnReadable` from the owning shard's thread only. The object lives until the partition
///          has been given back (AssignmentListener::OnRevoked returned).
class PartitionFeed {
 public:
  virtual ~PartitionFeed() = default;
  [[nodiscard]] virtual const TopicPartition& partition() const = 0;
  /// Appends copies of the next messages to `out` until `max_records` or (after at least one) `max_bytes` is reached or
  /// nothing more is there now. Never blocks. Returns how many were appended. Offsets ascend, with gaps where Kafka has
  /// gaps (compaction, transactions); after SeekTo the first is the smallest offset >= the one sought.
  virtual std::size_t Read(std::size_t max_records, std::size_t max_bytes, std::vector<RecordPtr>& out) = 0;
  /// Calls `wake` (from any thread, quickly, never under a lock of ours) whenever an empty feed has messages again.
  /// One call per period of emptiness: after a wake-up read until Read returns fewer than asked for, or come back on
  /// your own account.
  virtual void OnReadable(std::function<void()> wake) = 0;
  /// Goes on at `offset`; everything read earlier and not yet returned is dropped. Messages before the request never
  /// come out of Read after this returns.
  virtual void SeekTo(Offset offset) = 0;
  /// Log end offset (the next offset a producer will get) as last heard, -1 when unknown. Any thread.
  [[nodiscard]] virtual Offset LogEnd() const = 0;
};

/// Further readers of partitions this worker owns, beside the one feed each has: for subscriptions that do not keep
/// step with the others of their topic. They belong to no group and commit nothing.
///
/// Threads  Open: any. What it returns: as PartitionFeed says; letting go of it closes the reader.
/// Errors   None: a reader that cannot be made now is tried again, and its feed is empty until then.
class ReaderPool {
 public:
  virtual ~ReaderPool() = default;
  /// How many may be open at once for each partition. 0: none at all.
  [[nodiscard]] virtual std::size_t per_partition() const = 0;
  /// Reads `partition` from `offset`. Returns at once; messages follow. The caller sees to it that no partition has
  /// more than per_partition() of them.
  [[nodiscard]] virtual std::shared_ptr<PartitionFeed> Open(const TopicPartition& partition, Offset offset) = 0;
};

/// What a worker is told about its partitions. Called on the membership thread, one call at a time; may block while it
/// waits for shards (the group's heartbeats go on meanwhile).
class AssignmentListener {
 public:
  virtual ~AssignmentListener() = default;
  /// New partitions, each with a feed that starts flowing at the offset this returns for it (same order, one each).
  /// `partition_counts`: how many partitions each subscribed topic has now. Both may be empty: every rebalance calls.
  /// `cancelled` turns true when the worker is stopping: return soon, the offsets are then ignored.
  virtual std::vector<Offset> OnAssigned(const std::vector<std::shared_ptr<PartitionFeed>>& feeds,
                                         const std::function<bool()>& cancelled) = 0;
  /// Gives partitions up: no new attempt may start, those in flight are awaited (bounded), everything finished is
  /// committed. When this returns no thread touches their feeds again. `lost`: they already belong to somebody else, so
  /// nothing may be committed.
  virtual void OnRevoked(const std::vector<TopicPartition>& partitions, bool lost) = 0;
  /// Number of partitions of each subscribed topic, after every rebalance (also one that changed nothing for us) and
  /// whenever metadata shows a change.
  virtual void OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts) = 0;
};

/// "Do I still own what I believe to own?" A worker that was stopped (SIGSTOP, swapped out, moved) longer than half the
/// session timeout asks before it gives a permit or commits.
/// Threads  Any.
class MembershipGuard {
 public:
  virtual ~MembershipGuard() = default;
  /// False from the moment of Suspect() until the group's coordinator has confirmed the membership, and while the
  /// assignment is lost. One relaxed atomic load.
  [[nodiscard]] virtual bool Confirmed() const = 0;
  /// Somebody saw a gap between two wake-ups that was too long. Cheap to repeat.
  virtual void Suspect() = 0;
  /// Called (any thread) each time Confirmed() turns true again. Set once before threads start.
  virtual void OnConfirmed(std::function<void()> callback) = 0;
};

}  // namespace posthorn::delivery
