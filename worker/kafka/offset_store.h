#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/delivery/feed.h"
#include "worker/delivery/offset_store.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// For metrics.
struct OffsetStoreStats {
  std::uint64_t requests = 0;                     // write requests sent
  std::uint64_t failures = 0;                     // requests that failed as a whole or for at least one partition
  std::uint64_t partitions_written = 0;           // positions stored, refreshes included
  std::uint64_t waiting = 0;                      // positions changed and not stored yet
  std::chrono::milliseconds oldest_unwritten{0};  // age of the oldest of them
  std::uint32_t handles = 0;
  std::chrono::milliseconds retention{0};  // how long the brokers keep an offset, as read from them or assumed
};

/// OffsetStore over Alter/ListConsumerGroupOffsets in groups `<fleet>.<subscription>` that never have members, so that
/// Kafka's own tools show each subscription's lag.
///
/// Cost     1 to 8 clients (growing with the number of subscriptions that change), each with its own connection to the
///          coordinators: a request takes 5 ms on default brokers, and requests of one connection queue.
/// Errors   Each partition's own answer counts. A failed write is repeated after 0.1 to 5 s.
/// Threads  As OffsetStore says; one thread of its own. Drop stops everything not sent yet; a request that is on the
/// wire
///          at that moment may still be applied.
class KafkaOffsetStore final : public delivery::OffsetStore {
 public:
  struct Options {
    std::uint32_t requests_per_second = 150;   // write requests per client; Flush is not held back by it
    std::chrono::milliseconds interval{1000};  // how long a change may wait
    // How long requests may stay unanswered while brokers answer; then another client sends them again. Twice as long
    // for each that takes the place of a silent one, at most an hour: the coordinator may just be away.
    std::chrono::milliseconds patience{10'000};
  };
  /// Null and `error` set when the client cannot be made (see ClientConfig::Faults). Opens no connection yet.
  static std::unique_ptr<KafkaOffsetStore> Create(const ClientConfig& config, Options options, std::string& error);
  ~KafkaOffsetStore() override;
  KafkaOffsetStore(const KafkaOffsetStore&) = delete;
  KafkaOffsetStore& operator=(const KafkaOffsetStore&) = delete;

  /// Writes are held while `guard` is not confirmed. Once, before the first Update; without it nothing is held. The
  /// guard's threads have ended before the store is destroyed.
  void UseGuard(delivery::MembershipGuard& guard);

  [[nodiscard]] Fetched Fetch(const std::vector<Key>& keys, std::chrono::milliseconds timeout) override;
  [[nodiscard]] std::optional<std::pair<delivery::Offset, delivery::Offset>> Bounds(
      const delivery::TopicPartition& partition, std::chrono::milliseconds timeout) override;
  void Update(const Key& key, delivery::Position position, bool urgent, bool changed) override;
  void Flush(const std::vector<Key>& keys, std::function<void(bool)> done) override;
  void Drop(const std::vector<Key>& keys) override;
  void WriteAgain() override;

  [[nodiscard]] OffsetStoreStats stats() const;

 private:
  class Impl;
  explicit KafkaOffsetStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
