#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "worker/delivery/retry_sink.h"
#include "worker/kafka/log_limit.h"

namespace posthorn::kafka {

class AckedProducer;

/// RetrySink over AckedProducer, with its promises. The topic is `<fleet>.retry`.
class KafkaRetrySink final : public delivery::RetrySink {
 public:
  /// `producer`: from MakeFleetProducer; ends with the last of those that share it.
  explicit KafkaRetrySink(std::shared_ptr<AckedProducer> producer);
  ~KafkaRetrySink() override;
  KafkaRetrySink(const KafkaRetrySink&) = delete;
  KafkaRetrySink& operator=(const KafkaRetrySink&) = delete;

  [[nodiscard]] const std::string& topic() const override;
  void Prepare() override;
  void Write(std::int32_t partition, delivery::RecordPtr record, const delivery::RetryState& state,
             std::function<void(std::optional<delivery::Offset>)> done) override;
  void OnIgnored(const delivery::TopicPartition& partition, delivery::Offset offset,
                 delivery::RetryFault fault) override;
  /// Records that were passed over. Any thread.
  [[nodiscard]] std::uint64_t ignored() const { return ignored_.load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<AckedProducer> producer_;
  std::atomic<std::uint64_t> ignored_{0};
  std::mutex log_mutex_;
  LogLimit log_limit_{std::chrono::seconds(10)};
};

}  // namespace posthorn::kafka
