#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/delivery/dead_letter_sink.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

class AckedProducer;

/// For metrics.
struct DeadLetterStats {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;     // answered with false
  std::uint64_t in_flight = 0;  // given and not answered yet
};

/// DeadLetterSink over AckedProducer, with its promises. The topic `<fleet>.dead-letters` is created at start when it
/// is missing, with the brokers' defaults.
class KafkaDeadLetterSink final : public delivery::DeadLetterSink {
 public:
  /// With a producer of its own. Null and `error` set when the client cannot be made (see ClientConfig::Faults).
  static std::unique_ptr<KafkaDeadLetterSink> Create(const ClientConfig& config, std::string& error);
  /// `producer`: from MakeFleetProducer; ends with the last of those that share it.
  explicit KafkaDeadLetterSink(std::shared_ptr<AckedProducer> producer);
  ~KafkaDeadLetterSink() override;
  KafkaDeadLetterSink(const KafkaDeadLetterSink&) = delete;
  KafkaDeadLetterSink& operator=(const KafkaDeadLetterSink&) = delete;

  void Write(delivery::DeadLetter letter, std::function<void(bool)> done) override;

  [[nodiscard]] const std::string& topic() const;
  [[nodiscard]] DeadLetterStats stats() const;

 private:
  std::shared_ptr<AckedProducer> producer_;
};

}  // namespace posthorn::kafka
