#include "worker/kafka/seek_queue.h"

#include <iterator>
#include <map>
#include <utility>

namespace posthorn::kafka {
namespace {

constexpr std::chrono::milliseconds kRetry{20};  // until fetching of a new partition has begun
constexpr int kSeekPatience = 1000;              // ms

}  // namespace

void SeekQueue::Add(std::shared_ptr<QueueFeed> feed, delivery::Offset offset, std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  added_.push_back({std::move(feed), offset, ticket});
}

void SeekQueue::Clear() {
  const std::lock_guard lock(mutex_);
  added_.clear();
  seeks_.clear();
}

void SeekQueue::Serve(rd_kafka_t* consumer) {
  {
    const std::lock_guard lock(mutex_);
    if (!added_.empty()) at_ = Time::min();
    std::move(added_.begin(), added_.end(), std::back_inserter(seeks_));
    added_.clear();
  }
  if (seeks_.empty() || std::chrono::steady_clock::now() < at_) return;
  // Of several for one feed only the newest counts.
  std::map<delivery::TopicPartition, Seek> newest;
  for (auto& seek : seeks_)
    if (!seek.feed->closed()) newest[seek.feed->partition()] = std::move(seek);
  seeks_.clear();
  if (newest.empty()) return;
  auto list = NewPartitionList(newest.size());
  for (const auto& [partition, seek] : newest)
    rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition)->offset = seek.offset;
  const ErrorPtr failed(rd_kafka_seek_partitions(consumer, list.get(), kSeekPatience));
  for (int i = 0; i < list->cnt; ++i) {
    const auto& element = list->elems[i];
    auto& seek = newest.at({element.topic, element.partition});
    if (element.err == RD_KAFKA_RESP_ERR_NO_ERROR)
      seek.feed->SeekDone(seek.ticket);
    else
      seeks_.push_back(std::move(seek));
  }
  at_ = std::chrono::steady_clock::now() + kRetry;
}

}  // namespace posthorn::kafka
