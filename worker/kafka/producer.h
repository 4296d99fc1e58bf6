#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// What Producer::Send takes; views need to live only during the call.
struct OutgoingRecord {
  std::string_view topic;
  std::int32_t partition = -1;  // -1: by key, or any
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  std::int64_t timestamp_ms = 0;  // 0: now
};

/// A plain producer (idempotent, acks=all) for commands, the demo and tests.
///
/// Threads  One at a time.
class Producer {
 public:
  static std::unique_ptr<Producer> Create(const ClientConfig& config, std::string& error);
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// Blocks while the client's queue is full (at most 30 s). False: `last_error` says why.
  bool Send(const OutgoingRecord& record);
  /// True when everything sent has been acknowledged.
  bool Flush(std::chrono::milliseconds timeout);
  [[nodiscard]] std::uint64_t acknowledged() const;
  [[nodiscard]] std::uint64_t failed() const;
  [[nodiscard]] const std::string& last_error() const;

 private:
  struct Impl;
  explicit Producer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
