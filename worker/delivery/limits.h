#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/model.h"
#include "ratelimit/limiter.h"
#include "worker/delivery/record.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// Who says what this worker may use of each limit. Implemented in worker/fleet (static shares; leases later).
///
/// Threads  Any; changes are rare and serialised inside.
class Limits {
 public:
  virtual ~Limits() = default;
  /// The limiter of a limit named in the newest snapshot; null when there is none of that name. The object stays valid
  /// as long as it is held and keeps its counter over changes of the snapshot.
  [[nodiscard]] virtual std::shared_ptr<ratelimit::Limiter> Find(const std::string& limit) = 0;
  /// A new revision is in force. A lowered limit acts in the running window.
  virtual void OnSnapshot(const config::SnapshotPtr& snapshot, runtime::WallTime now) = 0;
  /// A revision that will be in force from the window of its `effective_at` on, until another one is told; OnSnapshot
  /// is told it as well, once that has come. Every limit that both have goes from the old to the new share in that
  /// window.
  virtual void OnScheduled(const config::SnapshotPtr& snapshot, runtime::WallTime now) = 0;
  /// Partitions were gained or given up. A share ends at once; it begins as Limiter says.
  virtual void OnGained(const std::vector<TopicPartition>& partitions, runtime::WallTime now) = 0;
  virtual void OnRevoked(const std::vector<TopicPartition>& partitions, runtime::WallTime now) = 0;
  virtual void OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts,
                                 runtime::WallTime now) = 0;
};

}  // namespace posthorn::delivery
