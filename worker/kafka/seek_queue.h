#pragma once

// Private to this room.

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/kafka/partition_feed.h"

namespace posthorn::kafka {

/// Seeks that feeds have asked for, until librdkafka has done them: it refuses one while fetching of the partition has
/// not begun or its start is just being changed, and there is no way but to ask again.
///
/// Threads  Add: any. The rest: the membership thread.
class SeekQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void Add(std::shared_ptr<QueueFeed> feed, delivery::Offset offset, std::uint64_t ticket);
  /// Does what is due, all in one call; blocks up to 1 s when the client does not answer.
  void Serve(rd_kafka_t* consumer);
  /// When Serve has something to do again; max: not before the next Add.
  [[nodiscard]] Time next() const { return seeks_.empty() ? Time::max() : at_; }
  void Clear();

 private:
  struct Seek {
    std::shared_ptr<QueueFeed> feed;
    delivery::Offset offset = 0;
    std::uint64_t ticket = 0;
  };
  std::mutex mutex_;
  std::vector<Seek> added_;
  std::vector<Seek> seeks_;  // the thread's, as is the time
  Time at_{};
};

}  // namespace posthorn::kafka
