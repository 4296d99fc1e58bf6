#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/delivery/dead_letter_sink.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// For metrics.
struct DeadLetterStats {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;     // answered with false
  std::uint64_t in_flight = 0;  // given and not answered yet
};

/// DeadLetterSink over an idempotent producer that waits for all in-sync replicas. The topic `<fleet>.dead-letters` is
/// created at start when it is missing, with the brokers' defaults.
///
/// Threads  Write from any thread, never blocks. `done` on the producer's thread; on destruction what is not
/// acknowledged
///          within 2 s is answered with false from the destroying thread.
/// Time     `done(false)` after at most 30 s without an acknowledgement; at once when the client's queue is full.
/// Errors   A fatal error of the client (a lost sequence) replaces it by a new one.
class KafkaDeadLetterSink final : public delivery::DeadLetterSink {
 public:
  /// Null and `error` set when the client cannot be made (see ClientConfig::Faults). Opens no connection yet.
  static std::unique_ptr<KafkaDeadLetterSink> Create(const ClientConfig& config, std::string& error);
  ~KafkaDeadLetterSink() override;
  KafkaDeadLetterSink(const KafkaDeadLetterSink&) = delete;
  KafkaDeadLetterSink& operator=(const KafkaDeadLetterSink&) = delete;

  void Write(delivery::DeadLetter letter, std::function<void(bool)> done) override;

  [[nodiscard]] const std::string& topic() const;
  [[nodiscard]] DeadLetterStats stats() const;

 private:
  class Impl;
  explicit KafkaDeadLetterSink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
