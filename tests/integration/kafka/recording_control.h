#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "worker/kafka/control_channel.h"

namespace posthorn::kafka {

/// A control channel at work, and what it has told.
class RecordingControl final : public ControlListener {
 public:
  struct Stored {
    std::int32_t partition = 0;
    runtime::WallTime sent;
    runtime::WallTime stored;
    runtime::WallTime known;
  };
  struct Told {
    std::int32_t partitions = 0;
    std::set<std::int32_t> owned;
    std::map<std::int32_t, std::vector<std::string>> log;
    std::map<std::int32_t, std::vector<std::string>> reports;
    std::set<std::int32_t> ended;
    std::vector<Stored> stored;
  };
  RecordingControl(const ClientConfig& config, int partitions) {
    ControlChannel::Options options;
    options.partitions = partitions;
    options.clock = &runtime::SystemClock();
    std::string error;
    channel_ = ControlChannel::Create(config, options, error);
    if (channel_ != nullptr) channel_->Start(*this);
  }
  ~RecordingControl() override {
    if (channel_ != nullptr) channel_->Stop();
  }
  RecordingControl(const RecordingControl&) = delete;
  RecordingControl& operator=(const RecordingControl&) = delete;

  ControlChannel& channel() { return *channel_; }
  bool WaitFor(const std::function<bool(const Told&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return condition(told_); });
  }
  Told told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  void OnReady(std::int32_t partitions) override {
    Note([&] { told_.partitions = partitions; });
  }
  void OnOwned(std::int32_t partition, bool owned) override {
    Note([&] {
      if (owned) {
        told_.owned.insert(partition);
      } else {
        told_.owned.erase(partition);
      }
    });
  }
  void OnReport(std::int32_t partition, std::string_view bytes) override {
    Note([&] { told_.reports[partition].emplace_back(bytes); });
  }
  void OnLog(std::int32_t partition, std::string_view bytes) override {
    Note([&] { told_.log[partition].emplace_back(bytes); });
  }
  void OnLogEnd(std::int32_t partition) override {
    Note([&] { told_.ended.insert(partition); });
  }
  void OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored,
                runtime::WallTime known) override {
    Note([&] { told_.stored.push_back({partition, sent, stored, known}); });
  }

 private:
  void Note(const std::function<void()>& note) {
    {
      const std::lock_guard lock(mutex_);
      note();
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_;
  std::unique_ptr<ControlChannel> channel_;
};

}  // namespace posthorn::kafka
