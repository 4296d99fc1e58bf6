#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/feed.h"
#include "worker/delivery/retry_record.h"

namespace posthorn::test {

/// The log of one partition: what was produced, wherever its feeds stand.
struct FakeLog {
  struct Entry {
    delivery::Offset offset = 0;
    std::int64_t timestamp_ms = -1;
    std::string value;
    std::optional<std::string> key;
    delivery::OwnedHeaders headers;
  };
  std::vector<Entry> entries;
  std::atomic<delivery::Offset> end{0};

  void Append(std::string value = "v", std::int64_t timestamp_ms = -1, std::optional<std::string> key = {}) {
    Append({0, timestamp_ms, std::move(value), std::move(key), {}});
  }
  delivery::Offset Append(Entry entry) {
    entry.offset = end++;
    entries.push_back(std::move(entry));
    return entries.back().offset;
  }
  void AppendMany(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) Append();
  }
  /// Offsets without a message, as compaction and transactions leave them.
  void Skip(delivery::Offset n) { end += n; }
};

/// A feed over a FakeLog. Threads: the one that drives the shard; LogEnd any.
class FakeFeed final : public delivery::PartitionFeed {
 public:
  FakeFeed(delivery::TopicPartition partition, std::shared_ptr<FakeLog> log)
      : partition_(std::move(partition)), log_(std::move(log)) {}

  [[nodiscard]] const delivery::TopicPartition& partition() const override { return partition_; }
  std::size_t Read(std::size_t max_records, std::size_t max_bytes, std::vector<delivery::RecordPtr>& out) override {
    std::size_t appended = 0;
    std::size_t bytes = 0;
    if (!flowing_) {
      starved_ = true;
      return 0;
    }
    const auto& entries = log_->entries;
    auto at =
        std::lower_bound(entries.begin(), entries.end(), position_,
                         [](const FakeLog::Entry& entry, delivery::Offset offset) { return entry.offset < offset; });
    for (; at != entries.end(); ++at) {
      const auto& entry = *at;
      if (appended == max_records || (appended > 0 && bytes >= max_bytes)) break;
      delivery::Record::Parts parts;
      parts.offset = entry.offset;
      parts.timestamp_ms = entry.timestamp_ms;
      parts.key = entry.key;
      parts.value = entry.value;
      std::vector<delivery::HeaderView> headers;
      for (const auto& [name, value] : entry.headers) headers.push_back({name, value});
      parts.headers = &headers;
      out.push_back(delivery::Record::Copy(parts));
      bytes += out.back()->memory();
      position_ = entry.offset + 1;
      ++appended;
    }
    if (appended < max_records) starved_ = true;
    return appended;
  }
  void OnReadable(std::function<void()> wake) override { wake_ = std::move(wake); }
  void SeekTo(delivery::Offset offset) override {
    position_ = offset;
    sought_ = true;
    seeks.push_back(offset);
  }
  [[nodiscard]] delivery::Offset LogEnd() const override { return log_->end; }

  /// After something was appended to the log.
  void Wake() {
    if (!starved_) return;
    starved_ = false;
    if (wake_) wake_();
  }
  /// Nothing comes out before: the membership starts a feed when OnAssigned has returned.
  void StartAt(delivery::Offset offset) {
    if (!sought_) position_ = offset;
    flowing_ = true;
    Wake();
  }
  [[nodiscard]] delivery::Offset position() const { return position_; }
  [[nodiscard]] bool watched() const { return wake_ != nullptr; }

  std::vector<delivery::Offset> seeks;

 private:
  const delivery::TopicPartition partition_;
  const std::shared_ptr<FakeLog> log_;
  delivery::Offset position_ = 0;
  bool flowing_ = false;
  bool sought_ = false;
  bool starved_ = false;
  std::function<void()> wake_;
};

}  // namespace posthorn::test
