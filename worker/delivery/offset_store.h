#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// Where a subscription goes on in a partition.
struct Position {
  Offset next = 0;       // everything below is finished
  std::string metadata;  // printable ASCII, <= 4096 characters: what is known of the messages from `next` on
  bool operator==(const Position&) const = default;
};

/// Stored positions per (subscription, partition), in Kafka's own offsets under the group `<fleet>.<subscription>`.
/// A write-behind store: Update only notes the newest position; the store writes what changed, one request per
/// subscription, within a budget of requests a second, so that the interval between writes stretches by itself when
/// very many change.
///
/// Threads  Any. Callbacks come on the store's thread.
/// Errors   A failed write is kept and repeated until it succeeds or the partition is dropped; it is shown in metrics.
class OffsetStore {
 public:
  struct Key {
    std::string subscription;
    TopicPartition partition;
    auto operator<=>(const Key&) const = default;
  };
  /// Stored positions for each key, in order; unset where nothing is stored. The outer optional is unset when the store
  /// could not be asked within `timeout` (ask again). Blocks: membership thread and tests only.
  using Fetched = std::optional<std::vector<std::optional<Position>>>;
  virtual ~OffsetStore() = default;
  [[nodiscard]] virtual Fetched Fetch(const std::vector<Key>& keys, std::chrono::milliseconds timeout) = 0;
  /// First and last offset of partitions: {earliest, log end}, for subscriptions without a stored position. Blocks.
  [[nodiscard]] virtual std::optional<std::pair<Offset, Offset>> Bounds(const TopicPartition& partition,
                                                                        std::chrono::milliseconds timeout) = 0;
  /// Notes a position; written within about a second. `urgent`: as soon as the budget allows.
  /// `changed` false: only to be kept from expiring (a lane's position at its start); written at refresh times.
  virtual void Update(const Key& key, Position position, bool urgent, bool changed) = 0;
  /// Writes everything noted for `keys` now; `done(true)` when all of it is stored.
  virtual void Flush(const std::vector<Key>& keys, std::function<void(bool)> done) = 0;
  /// Forgets what is noted for `keys` (given back or lost): nothing about them is written any more after this returns.
  virtual void Drop(const std::vector<Key>& keys) = 0;
  /// Everything noted is written once more in a few seconds. After every change of owners: a process that stood still
  /// may have sent, when it went on and before it could know better, what was under way inside it, and so have put back
  /// what others store; it must then join anew, and everybody hears of that.
  virtual void WriteAgain() = 0;
};

}  // namespace posthorn::delivery
