#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// Writes records to the fleet's own topics and says when each is safe: one idempotent producer that waits for all
/// in-sync replicas. The topics are created when they are missing, at start or when they are needed; a failure is shown
/// and tried again.
///
/// Threads  Write and stats from any thread, never blocking. `done` on the producer's thread; on destruction what is
///          not acknowledged within 2 s is answered from the destroying thread.
/// Time     An answer after at most 30 s (Pace) without an acknowledgement; at once when the client's queue is full.
/// Errors   A fatal error of the client (a lost sequence) replaces it by a new one.
class AckedProducer {
 public:
  struct Topic {
    std::string name;
    std::string what;      // for the log, e.g. "dead-letter topic"
    int partitions = -1;   // -1: the brokers' own number
    int replication = -1;  // -1: the brokers' own number, kUpToThree
    bool at_start = true;  // false: created by the first Ensure
    int max_bytes = kAnyMessage;
    /// Beside them, when the number of replicas is not the brokers', `min.insync.replicas`: 2 of 3 or more,
    /// otherwise 1.
    std::vector<std::pair<std::string, std::string>> settings;
  };
  /// As many replicas as there are brokers when the topic is created, three at most.
  static constexpr int kUpToThree = 0;
  /// A record at the brokers' usual bound of 1 MiB must still fit with Posthorn's headers: one that cannot be written
  /// would hold its partition for ever.
  static constexpr int kAnyMessage = 64 << 20;
  struct Outgoing {
    std::size_t topic = 0;        // index
    std::int32_t partition = -1;  // -1: by the key
    std::optional<std::string_view> key;
    std::optional<std::string_view> value;
    const std::vector<std::pair<std::string, std::optional<std::string>>>* headers = nullptr;
  };
  struct Stats {
    std::uint64_t written = 0;
    std::uint64_t failed = 0;     // answered without an offset
    std::uint64_t in_flight = 0;  // given and not answered yet
  };
  struct Answer {
    std::optional<std::int64_t> offset;  // unset: not acknowledged, it may be written or not
    bool too_large = false;              // not written, and never will be: the topic takes no record of that size
    std::optional<std::int64_t>
        stored_ms;  // when, by the broker's clock; unset where the topic does not stamp records so
  };
  using Done = std::function<void(const Answer& answer)>;

  enum class Pace : std::uint8_t {
    kCareful,  // a few milliseconds to collect records in; up to 30 s until they are stored
    kControl,  // at once; what is not stored after 5 s is of no use any more
  };
  /// Null and `error` set when the client cannot be made (see ClientConfig::Faults). Opens no connection yet.
  static std::shared_ptr<AckedProducer> Create(const ClientConfig& config, std::vector<Topic> topics,
                                               std::string& error, Pace pace = Pace::kCareful);
  ~AckedProducer();
  AckedProducer(const AckedProducer&) = delete;
  AckedProducer& operator=(const AckedProducer&) = delete;

  /// Creates the topic if it is missing. Cheap to repeat.
  void Ensure(std::size_t topic);
  /// Everything is copied.
  void Write(const Outgoing& record, Done done);
  [[nodiscard]] const std::string& name_of(std::size_t topic) const;
  [[nodiscard]] Stats stats(std::size_t topic) const;

 private:
  class Impl;
  explicit AckedProducer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
