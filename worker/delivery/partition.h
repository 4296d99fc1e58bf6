#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "worker/delivery/feed.h"
#include "worker/delivery/lane.h"
#include "worker/delivery/memory_account.h"
#include "worker/delivery/partition_ring.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// One owned partition on its shard: what is read of it, and the lanes that read it.
///
/// The lanes share one stream. One that would hold up the others (the ring is full because of it, it fills the
/// partition's memory, it comes back far behind) reads apart, through a reader of its own, from where it stands, and
/// comes back when it is again where the shared ring is. Readers are few per partition: with more lanes apart than
/// readers they take turns; a lane goes on with what its last turn has brought.
///
/// Memory   A lane apart has an account of its own, as large as another partition's: what it holds stays bounded, and
///          stays out of the others' part.
/// Threads  The shard's.
/// Cost     A look at each lane per refill; with one lane, or no pool of readers, nothing more.
class Partition {
 public:
  static constexpr auto kTurn = std::chrono::seconds(2);             // with a reader, from its first message
  static constexpr auto kLongestTurn = std::chrono::seconds(10);     // when none comes
  static constexpr auto kPatience = std::chrono::milliseconds(250);  // with memory that others fill

  /// `readers` may be null: then everybody waits for the slowest. `ring_records`: how many messages are read ahead of
  /// the slowest lane of a stream; what is beyond stays unread in the feed.
  Partition(Shard& shard, std::shared_ptr<PartitionFeed> feed, std::shared_ptr<MemoryAccount> memory, Offset start,
            ReaderPool* readers, std::size_t ring_records);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  [[nodiscard]] const TopicPartition& id() const { return shared_.feed->partition(); }
  /// `lane` (of `lanes`) reads from its next_to_take() on.
  void Join(Lane& lane);
  void Leave(Lane& lane);
  /// No feed wakes anybody any more.
  void Close() { shared_.feed->OnReadable(nullptr); }
  /// The feed has messages again.
  void OnReadable() { shared_.readable = true; }
  /// Reads what there is room for, and settles who reads apart.
  void Refill(const runtime::Now& now);
  /// What one lane may hold, in bytes: with others beside it a part only, so that they find room.
  [[nodiscard]] std::size_t MostHeldByLane() const;
  /// A larger message is not delivered.
  [[nodiscard]] std::uint64_t LargestMessage() const { return shared_.memory->LargestMessage(); }
  /// No room for what this lane would read next.
  [[nodiscard]] bool IsFullFor(const Lane& lane) const;
  [[nodiscard]] std::size_t lanes_apart() const { return apart_.size(); }

  std::vector<std::unique_ptr<Lane>> lanes;
  bool retry = false;    // of the retry topic
  bool touched = false;  // stands in the shard's list of partitions to look at

 private:
  struct Stream {
    std::shared_ptr<PartitionFeed> feed;
    std::shared_ptr<MemoryAccount> memory;
    PartitionRing ring;
    Offset next_to_read = 0;  // what the feed yields next is not below this
    bool readable = true;     // the feed may have messages
  };
  struct Apart {
    Lane* lane;
    Stream stream;  // without a feed: waits for its turn
    runtime::SteadyTime turn_began{};
    std::optional<runtime::SteadyTime> first_read;
  };
  using Sequence = PartitionRing::Sequence;

  struct Survey {  // of those that read the shared stream
    bool anybody = false;
    Sequence slowest = 0;
    Offset least_next = std::numeric_limits<Offset>::max();
    const Lane* first = nullptr;  // the furthest that could take more
    Sequence front = 0;           // where that one is
  };

  [[nodiscard]] bool ReadsShared(const Lane& lane) const { return lane.Reads(shared_.ring); }
  [[nodiscard]] bool InSharedRing(Offset next) const;
  [[nodiscard]] Sequence PositionOf(const Lane& lane) const;
  [[nodiscard]] Survey Look() const;
  void TrimShared(Sequence slowest);
  void Rewind(Offset to);
  std::size_t Fill(Stream& stream, Sequence slowest);
  [[nodiscard]] RecordPtr Unwrap(RecordPtr record);

  bool Separate(const Survey& seen, const runtime::Now& now);
  [[nodiscard]] Lane* FillsMemory(const Lane& hungry, const runtime::Now& now);
  void MoveApart(Lane& lane, const char* why);
  void EndApart(Lane& lane);
  void BringBack();
  void Return(Lane& lane);

  void GiveTurns(const runtime::Now& now);
  void GiveReader(const std::shared_ptr<Apart>& apart, const runtime::Now& now);
  [[nodiscard]] static bool IsFull(const Apart& apart, std::size_t most);

  Shard& shard_;
  ReaderPool* const readers_;
  const std::size_t ring_records_;
  const std::size_t overlap_;  // kept behind the fastest while a lane reads apart: there it meets the others again
  Stream shared_;
  std::vector<std::shared_ptr<Apart>> apart_;  // whoever had a turn last stands behind
  std::size_t readers_in_use_ = 0;
  std::optional<runtime::SteadyTime> starved_since_;
  std::vector<RecordPtr> read_buffer_;
};

}  // namespace posthorn::delivery
