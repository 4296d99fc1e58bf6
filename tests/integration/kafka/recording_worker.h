#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/kafka/client_config.h"
#include "worker/kafka/membership.h"

namespace posthorn::kafka {

/// A member of a group with one reading thread in the place of a shard. Records what it is told and what it reads.
class RecordingWorker final : public delivery::AssignmentListener {
 public:
  using Partition = delivery::TopicPartition;
  struct Event {
    enum Kind { kAssigned, kRevoked, kLost, kCounts, kFenced, kConfirmed } kind;
    std::vector<Partition> partitions;
    std::vector<std::pair<std::string, std::int32_t>> counts;
  };
  struct Options {
    std::function<delivery::Offset(const Partition&)> start;     // unset: 0
    std::function<void(const Event&)> on_event;                  // on the membership thread
    std::function<void(const Partition&, std::size_t)> on_read;  // on the reading thread
  };
  RecordingWorker(const ClientConfig& config, std::set<std::string> topics, Options options);
  ~RecordingWorker() override;

  Membership& membership() { return *membership_; }
  void Stop() { membership_->Stop(); }

  /// Runs on the reading thread and waits for it.
  void OnReader(const std::function<void()>& work);
  /// As OnReader; the feed must be owned.
  void SeekTo(const Partition& partition, delivery::Offset offset);
  std::shared_ptr<delivery::PartitionFeed> Feed(const Partition& partition);
  /// While paused nothing is read.
  void PauseReading(bool paused);

  std::vector<delivery::RecordPtr> Records(const Partition& partition);
  void ForgetRecords();
  std::vector<Event> Events();
  std::set<Partition> Owned();
  /// Waits until the predicate holds; looks whenever something happened. False after `timeout`.
  bool WaitFor(const std::function<bool()>& predicate, std::chrono::milliseconds timeout = std::chrono::seconds(30));
  bool WaitForOwned(std::size_t partitions, std::chrono::milliseconds timeout = std::chrono::seconds(30));
  bool WaitForRecords(const Partition& partition, std::size_t count,
                      std::chrono::milliseconds timeout = std::chrono::seconds(30));

  std::vector<delivery::Offset> OnAssigned(const std::vector<std::shared_ptr<delivery::PartitionFeed>>& feeds,
                                           const std::function<bool()>& cancelled) override;
  void OnRevoked(const std::vector<Partition>& partitions, bool lost) override;
  void OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts) override;

 private:
  void Read();
  void Post(std::function<void()> work);
  void Note(Event event);

  Options options_;
  std::unique_ptr<Membership> membership_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable happened_;
  std::vector<std::function<void()>> work_;
  bool stop_ = false;
  bool paused_ = false;
  std::map<Partition, std::vector<delivery::RecordPtr>> records_;
  std::vector<Event> events_;
  std::set<Partition> owned_;
  // The reading thread's.
  std::map<Partition, std::shared_ptr<delivery::PartitionFeed>> feeds_;
  std::set<Partition> readable_;
  std::thread thread_;
};

/// A deployment for tests: a fleet of its own, short sessions where the broker allows.
config::Deployment TestDeployment(const std::string& bootstrap, const std::string& fleet,
                                  const std::string& instance = {});

}  // namespace posthorn::kafka
