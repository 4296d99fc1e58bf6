#pragma once

// Private to this room, like every header that shows librdkafka.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/delivery/feed.h"
#include "worker/kafka/handle.h"
#include "worker/kafka/log_limit.h"

namespace posthorn::kafka {

class QueueFeed;

/// What a feed asks of its membership. Any thread; never blocks.
class FeedHost {
 public:
  virtual ~FeedHost() = default;
  /// Move the fetch position of `feed` to `offset`, then call feed->SeekDone(ticket).
  virtual void RequestSeek(std::shared_ptr<QueueFeed> feed, delivery::Offset offset, std::uint64_t ticket) = 0;
  /// The queue of a partition has drained below half: see that the fetcher is awake.
  virtual void RequestKick(const delivery::TopicPartition& partition) = 0;
};

/// How much librdkafka keeps of a partition, as configured.
struct QueueLimits {
  std::size_t messages = 100'000;
  std::size_t bytes = 4 << 20;
  bool kick = false;  // this librdkafka sleeps up to 1 s beside a drained queue
};

QueueLimits LimitsOf(const rd_kafka_conf_t* conf);

/// PartitionFeed over a partition's own queue, taken off the consumer before the partition is assigned.
///
/// A seek is done by the membership thread, because librdkafka refuses it while fetching has not begun; until it is
/// done Read returns nothing. librdkafka drops what was fetched before by a version it raises in the seek, whatever the
/// offsets: no filter on offsets could tell apart what lies in a gap.
///
/// When the position is no longer there (retention was faster, or the topic was cut off or made anew) fetching goes on
/// at the earliest message; Read logs how many are gone. Only after a cut or a new topic are the next offsets lower.
///
/// Threads  As PartitionFeed says; SeekDone and Close: the membership thread; the rest of what is added here: any.
class QueueFeed final : public delivery::PartitionFeed, public std::enable_shared_from_this<QueueFeed> {
 public:
  QueueFeed(FeedHost& host, rd_kafka_t* client, delivery::TopicPartition partition, QueuePtr queue, QueueLimits limits);
  ~QueueFeed() override;
  QueueFeed(const QueueFeed&) = delete;
  QueueFeed& operator=(const QueueFeed&) = delete;

  [[nodiscard]] const delivery::TopicPartition& partition() const override { return partition_; }
  std::size_t Read(std::size_t max_records, std::size_t max_bytes, std::vector<delivery::RecordPtr>& out) override;
  void OnReadable(std::function<void()> wake) override;
  void SeekTo(delivery::Offset offset) override;
  [[nodiscard]] delivery::Offset LogEnd() const override { return log_end_.load(std::memory_order_relaxed); }

  /// Where fetching begins; before the assign.
  void StartAt(delivery::Offset offset) { expected_ = offset; }
  void SeekDone(std::uint64_t ticket);
  /// Gives the queue back; from now on Read returns nothing.
  void Close();
  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// A log end heard from elsewhere.
  void HearLogEnd(delivery::Offset end);
  /// Messages lie here that nobody has read for `time`: what the fetcher last heard of the log may be old.
  [[nodiscard]] bool UnreadFor(std::chrono::nanoseconds time) const;

 private:
  static void OnQueueEvent(rd_kafka_t* client, void* self) noexcept;
  void Wake() const;
  void HandleError(const rd_kafka_message_t& message);
  void NoteGap(delivery::Offset offset);
  void AfterRead(std::size_t appended, std::size_t bytes);

  FeedHost& host_;
  rd_kafka_t* const client_;
  const delivery::TopicPartition partition_;
  QueuePtr queue_;
  const QueueLimits limits_;

  // The shard's.
  delivery::Offset expected_ = 0;
  std::vector<delivery::HeaderView> headers_;
  std::uint64_t seeks_asked_ = 0;
  std::size_t longest_ = 0;          // queue length seen since the last kick
  std::size_t average_bytes_ = 256;  // of a record, moving
  LogLimit errors_{std::chrono::seconds(10)};

  std::atomic<std::uint64_t> seeks_done_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> unread_{false};
  std::atomic<std::int64_t> read_at_;  // steady ns of the last Read that took something
  std::atomic<delivery::Offset> log_end_{-1};
  mutable std::mutex wake_mutex_;
  std::shared_ptr<const std::function<void()>> wake_;
};

}  // namespace posthorn::kafka
