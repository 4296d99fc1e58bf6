#include "tests/integration/kafka/recording_worker.h"

#include <cstdlib>
#include <iostream>
#include <utility>

namespace posthorn::kafka {

RecordingWorker::RecordingWorker(const ClientConfig& config, std::set<std::string> topics, Options options)
    : options_(std::move(options)) {
  std::string error;
  membership_ = Membership::Create(config, error);
  if (membership_ == nullptr) {
    std::cerr << "no membership: " << error << "\n";
    std::abort();
  }
  thread_ = std::thread([this] { Read(); });
  membership_->OnConfirmed([this] { Note({Event::kConfirmed, {}, {}}); });
  membership_->Start(*this, [this](const std::string&) { Note({Event::kFenced, {}, {}}); });
  membership_->Subscribe(std::move(topics));
}

RecordingWorker::~RecordingWorker() {
  membership_->Stop();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RecordingWorker::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void RecordingWorker::OnReader(const std::function<void()>& work) {
  bool done = false;
  Post([&] {
    work();
    {
      const std::lock_guard lock(mutex_);
      done = true;
    }
    happened_.notify_all();
  });
  std::unique_lock lock(mutex_);
  happened_.wait(lock, [&] { return done; });
}

void RecordingWorker::Read() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait(lock, [this] { return stop_ || !work_.empty() || (!paused_ && !readable_.empty()); });
    for (auto& work : std::exchange(work_, {})) {
      lock.unlock();
      work();
      lock.lock();
    }
    if (paused_) continue;
    for (const auto& partition : std::exchange(readable_, {})) {
      const auto feed = feeds_.find(partition);
      if (feed == feeds_.end()) continue;
      lock.unlock();
      std::vector<delivery::RecordPtr> batch;
      const std::size_t count = feed->second->Read(100, 1 << 20, batch);
      if (count > 0 && options_.on_read) options_.on_read(partition, count);
      lock.lock();
      auto& records = records_[partition];
      records.insert(records.end(), batch.begin(), batch.end());
      if (count > 0) readable_.insert(partition);
      happened_.notify_all();
    }
  }
}

void RecordingWorker::Note(Event event) {
  if (options_.on_event) options_.on_event(event);
  const std::lock_guard lock(mutex_);
  if (event.kind == Event::kAssigned) owned_.insert(event.partitions.begin(), event.partitions.end());
  if (event.kind == Event::kRevoked || event.kind == Event::kLost)
    for (const auto& partition : event.partitions) owned_.erase(partition);
  events_.push_back(std::move(event));
  happened_.notify_all();
}

std::vector<delivery::Offset> RecordingWorker::OnAssigned(
    const std::vector<std::shared_ptr<delivery::PartitionFeed>>& feeds, const std::function<bool()>& /*cancelled*/) {
  std::vector<delivery::Offset> offsets;
  Event event{Event::kAssigned, {}, {}};
  for (const auto& feed : feeds) {
    event.partitions.push_back(feed->partition());
    offsets.push_back(options_.start ? options_.start(feed->partition()) : 0);
  }
  OnReader([&] {
    for (const auto& feed : feeds) {
      feeds_[feed->partition()] = feed;
      feed->OnReadable([this, partition = feed->partition()] {
        {
          const std::lock_guard lock(mutex_);
          readable_.insert(partition);
        }
        changed_.notify_one();
      });
    }
  });
  Note(std::move(event));
  return offsets;
}

void RecordingWorker::OnRevoked(const std::vector<Partition>& partitions, bool lost) {
  OnReader([&] {
    const std::lock_guard lock(mutex_);
    for (const auto& partition : partitions) feeds_.erase(partition);
  });
  Note({lost ? Event::kLost : Event::kRevoked, partitions, {}});
}

void RecordingWorker::OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts) {
  Note({Event::kCounts, {}, counts});
}

void RecordingWorker::SeekTo(const Partition& partition, delivery::Offset offset) {
  OnReader([&] {
    feeds_.at(partition)->SeekTo(offset);
    const std::lock_guard lock(mutex_);
    records_[partition].clear();
  });
}

std::shared_ptr<delivery::PartitionFeed> RecordingWorker::Feed(const Partition& partition) {
  std::shared_ptr<delivery::PartitionFeed> feed;
  OnReader([&] {
    const auto found = feeds_.find(partition);
    if (found != feeds_.end()) feed = found->second;
  });
  return feed;
}

void RecordingWorker::PauseReading(bool paused) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  changed_.notify_one();
}

std::vector<delivery::RecordPtr> RecordingWorker::Records(const Partition& partition) {
  const std::lock_guard lock(mutex_);
  return records_[partition];
}

void RecordingWorker::ForgetRecords() {
  const std::lock_guard lock(mutex_);
  records_.clear();
}

std::vector<RecordingWorker::Event> RecordingWorker::Events() {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::set<RecordingWorker::Partition> RecordingWorker::Owned() {
  const std::lock_guard lock(mutex_);
  return owned_;
}

bool RecordingWorker::WaitFor(const std::function<bool()>& predicate, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!predicate()) {
    std::unique_lock lock(mutex_);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    happened_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

bool RecordingWorker::WaitForOwned(std::size_t partitions, std::chrono::milliseconds timeout) {
  return WaitFor([&] { return Owned().size() == partitions; }, timeout);
}

bool RecordingWorker::WaitForRecords(const Partition& partition, std::size_t count, std::chrono::milliseconds timeout) {
  return WaitFor([&] { return Records(partition).size() >= count; }, timeout);
}

config::Deployment TestDeployment(const std::string& bootstrap, const std::string& fleet, const std::string& instance) {
  config::Deployment deployment;
  deployment.fleet = fleet;
  deployment.instance = instance;
  deployment.membership = instance.empty() ? config::Membership::kDynamic : config::Membership::kStatic;
  deployment.kafka["bootstrap.servers"] = bootstrap;
  return deployment;
}

}  // namespace posthorn::kafka
