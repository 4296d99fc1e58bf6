#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/fake_feed.h"
#include "worker/delivery/feed.h"

namespace posthorn::test {

/// A pool whose readers are FakeFeeds over the same logs. More than per_partition() at once for one partition is a
/// fault. Threads  Open: any. The rest: the one that drives the shards, while these stand still.
class FakeReaders final : public delivery::ReaderPool {
 public:
  using LogOf = std::function<std::shared_ptr<FakeLog>(const delivery::TopicPartition&)>;
  explicit FakeReaders(LogOf log_of) : log_of_(std::move(log_of)) {}

  [[nodiscard]] std::size_t per_partition() const override { return most; }
  [[nodiscard]] std::shared_ptr<delivery::PartitionFeed> Open(const delivery::TopicPartition& partition,
                                                              delivery::Offset offset) override {
    auto feed = std::make_shared<FakeFeed>(partition, log_of_(partition));
    if (!silent) feed->StartAt(offset);
    const std::lock_guard lock(mutex_);
    ++opened;
    std::erase_if(open_, [](const auto& reader) { return reader.expired(); });
    open_.push_back(feed);
    if (OpenOf(partition) > most) ++too_many;
    return feed;
  }

  /// After something was appended to a log.
  void Wake() {
    for (const auto& reader : Readers()) reader->Wake();
  }
  [[nodiscard]] std::size_t open() const { return Readers().size(); }

  std::size_t most = 2;  // before the first partition is added
  bool silent = false;   // readers yield nothing
  int opened = 0;
  int too_many = 0;

 private:
  [[nodiscard]] std::size_t OpenOf(const delivery::TopicPartition& partition) const {
    std::size_t n = 0;
    for (const auto& reader : open_) {
      const auto feed = reader.lock();
      n += feed != nullptr && feed->partition() == partition ? 1 : 0;
    }
    return n;
  }
  [[nodiscard]] std::vector<std::shared_ptr<FakeFeed>> Readers() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<FakeFeed>> readers;
    for (const auto& reader : open_) {
      if (auto feed = reader.lock()) readers.push_back(std::move(feed));
    }
    return readers;
  }

  const LogOf log_of_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<FakeFeed>> open_;
};

}  // namespace posthorn::test
