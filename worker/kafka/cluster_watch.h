#pragma once

// Private to this room.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/kafka/handle.h"
#include "worker/kafka/partition_feed.h"

namespace posthorn::kafka {

/// Asks the cluster what the membership must not block on: how many partitions the topics have, how far the logs of
/// partitions go that are not fetched at the moment, and, before librdkafka 2.2, anything at all of the data consumer,
/// so that its sleeping fetcher wakes up.
///
/// Threads  One of its own, blocking on nothing but the brokers; calls come from any.
class ClusterWatch {
 public:
  using Counts = std::vector<std::pair<std::string, std::int32_t>>;
  struct Options {
    std::chrono::milliseconds counts_interval{30'000};
    std::chrono::milliseconds missing_interval{2000};  // while a topic is not there
    std::chrono::milliseconds log_end_interval{2000};
  };
  /// `admin` answers questions, `data` is the data consumer; both outlive this. `on_counts` comes on this thread after
  /// every answer that was asked for (RefreshCounts) or that differs from the one before.
  ClusterWatch(rd_kafka_t* admin, rd_kafka_t* data, Options options, std::function<void(Counts)> on_counts);
  ~ClusterWatch();
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  void Stop();
  void SetTopics(std::set<std::string> topics);
  void RefreshCounts();
  void SetFeeds(std::vector<std::shared_ptr<QueueFeed>> feeds);
  void Kick(const delivery::TopicPartition& partition);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void Run();
  void RefreshLogEnds(const std::vector<std::shared_ptr<QueueFeed>>& feeds);
  bool AskCounts(const std::set<std::string>& topics, Counts& counts);
  [[nodiscard]] bool stopping();

  rd_kafka_t* const admin_;
  rd_kafka_t* const data_;
  const Options options_;
  const std::function<void(Counts)> on_counts_;

  // The thread's.
  std::map<std::string, TopicPtr> known_;  // a topic must be known to the client for its metadata to be asked
  Counts last_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool counts_wanted_ = false;
  std::set<std::string> topics_;
  std::vector<std::shared_ptr<QueueFeed>> feeds_;
  std::set<delivery::TopicPartition> kicks_;
  std::thread thread_;  // last: starts when everything above is there
};

}  // namespace posthorn::kafka
