#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace posthorn::kafka {

/// The broker (or several) inside librdkafka, for the demo and for fast tests: no persistence, on a free port of
/// 127.0.0.1, reachable by any Kafka client of this machine. Keeps at most 5 MiB or 100 000 batches per partition; the
/// first join of a group takes 3 s; knows no admin requests, no static membership, no transactions.
///
/// Threads  One thread at a time.
class EmbeddedBroker {
 public:
  /// Null and `error` set when no port can be had.
  static std::unique_ptr<EmbeddedBroker> Create(std::string& error, int brokers = 1);
  ~EmbeddedBroker();
  EmbeddedBroker(const EmbeddedBroker&) = delete;
  EmbeddedBroker& operator=(const EmbeddedBroker&) = delete;

  /// For `bootstrap.servers`.
  [[nodiscard]] const std::string& bootstrap() const;
  /// False with `error` set when it exists already with another number of partitions or cannot be made.
  bool CreateTopic(const std::string& topic, std::int32_t partitions, std::string& error);
  /// Cuts and restores the connections (tests).
  void SetDown(bool down);
  /// The last broker becomes the group's coordinator and keeps its next answer, and all behind it, to itself: to a
  /// question for offsets, or to a write of them (tests).
  enum class Request { kFetchOffsets, kWriteOffsets };
  void KeepAnswer(const std::string& group, Request to);
  /// The next so many questions for the bounds of partitions are answered as while a leader is being elected (tests).
  void HaveNoLeaders(int questions);

 private:
  struct Impl;
  explicit EmbeddedBroker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
