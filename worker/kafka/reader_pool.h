#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/delivery/feed.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// Readers beside the membership's feeds: clients without a group, each of which reads any number of partitions, but
/// each only once. The first is made when the first reader is opened; one that has nothing to read for a while is
/// closed.
///
/// Memory   A reader's unread messages: a sixteenth of `memory`, shared out as if there were 32 readers, at most 1 MiB
///          and one answer of the broker each.
/// Threads  A thread of its own opens and closes. Stop: the owner.
/// Errors   A broker away, a client that cannot be made: logged, tried again. A position that is gone: reading goes on
///          at the earliest message, and the log says how many are lost.
/// Lifetime Outlives the feeds it has opened.
class KafkaReaderPool final : public delivery::ReaderPool {
 public:
  struct Options {
    std::size_t per_partition = 4;
    std::chrono::milliseconds idle{30'000};  // after which a client that reads nothing is closed
  };
  struct State {
    std::size_t clients = 0;
    std::size_t readers = 0;
  };
  KafkaReaderPool(const ClientConfig& config, Options options);
  ~KafkaReaderPool() override;
  KafkaReaderPool(const KafkaReaderPool&) = delete;
  KafkaReaderPool& operator=(const KafkaReaderPool&) = delete;

  [[nodiscard]] std::size_t per_partition() const override;
  [[nodiscard]] std::shared_ptr<delivery::PartitionFeed> Open(const delivery::TopicPartition& partition,
                                                              delivery::Offset offset) override;
  [[nodiscard]] State state() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
