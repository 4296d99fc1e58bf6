#include "worker/kafka/cluster_watch.h"

#include <algorithm>
#include <utility>

#include "worker/kafka/log_bounds.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

constexpr auto kRequestTimeout = 1000;  // ms
constexpr auto kCountsRetry = 500ms;

}  // namespace

ClusterWatch::ClusterWatch(rd_kafka_t* admin, rd_kafka_t* data, Options options, std::function<void(Counts)> on_counts)
    : admin_(admin), data_(data), options_(options), on_counts_(std::move(on_counts)), thread_([this] { Run(); }) {}

ClusterWatch::~ClusterWatch() {
  Stop();
  known_.clear();
}

void ClusterWatch::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    feeds_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ClusterWatch::SetTopics(std::set<std::string> topics) {
  {
    const std::lock_guard lock(mutex_);
    topics_ = std::move(topics);
    counts_wanted_ = true;
  }
  changed_.notify_one();
}

void ClusterWatch::RefreshCounts() {
  {
    const std::lock_guard lock(mutex_);
    counts_wanted_ = true;
  }
  changed_.notify_one();
}

void ClusterWatch::SetFeeds(std::vector<std::shared_ptr<QueueFeed>> feeds) {
  const std::lock_guard lock(mutex_);
  feeds_ = std::move(feeds);
}

void ClusterWatch::Kick(const delivery::TopicPartition& partition) {
  {
    const std::lock_guard lock(mutex_);
    kicks_.insert(partition);
  }
  changed_.notify_one();
}

bool ClusterWatch::stopping() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void ClusterWatch::Run() {
  Time next_counts = Time::min();
  Time next_log_ends = std::chrono::steady_clock::now() + options_.log_end_interval;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Time now = std::chrono::steady_clock::now();
    if (!kicks_.empty()) {
      // One question wakes the fetcher of a broker for all its partitions; which broker leads what is not ours to know.
      const auto kicks = std::exchange(kicks_, {});
      lock.unlock();
      for (const auto& partition : kicks) {
        if (stopping()) break;
        WakeFetcher(data_, partition);
      }
      lock.lock();
      continue;
    }
    if ((counts_wanted_ || now >= next_counts) && !topics_.empty()) {
      const bool wanted = std::exchange(counts_wanted_, false);
      const auto topics = topics_;
      lock.unlock();
      Counts counts;
      const bool answered = AskCounts(topics, counts);
      if (answered && (wanted || counts != last_)) on_counts_(counts);
      const bool missing = counts.size() < topics.size();
      if (answered) last_ = std::move(counts);
      const auto interval = missing ? options_.missing_interval : options_.counts_interval;
      next_counts = std::chrono::steady_clock::now() + (answered ? interval : kCountsRetry);
      lock.lock();
      if (!answered && wanted) {
        // Asked for and not answered: again at the retry time, and then told whatever it says.
        last_.clear();
      }
      continue;
    }
    if (now >= next_log_ends) {
      const auto feeds = feeds_;
      lock.unlock();
      RefreshLogEnds(feeds);
      next_log_ends = std::chrono::steady_clock::now() + options_.log_end_interval;
      lock.lock();
      continue;
    }
    const Time wake_at = topics_.empty() ? next_log_ends : std::min(next_log_ends, next_counts);
    changed_.wait_until(lock, wake_at,
                        [&] { return stop_ || !kicks_.empty() || (counts_wanted_ && !topics_.empty()); });
  }
}

void ClusterWatch::RefreshLogEnds(const std::vector<std::shared_ptr<QueueFeed>>& feeds) {
  for (const auto& feed : feeds) {
    if (stopping()) return;
    if (feed->closed()) continue;
    const auto& partition = feed->partition();
    // A partition whose queue has room is being fetched: the client's own figure is fresh and costs nothing.
    if (!feed->UnreadFor(options_.log_end_interval)) {
      std::int64_t low = -1;
      std::int64_t high = -1;
      if (rd_kafka_get_watermark_offsets(data_, partition.topic.c_str(), partition.partition, &low, &high) ==
          RD_KAFKA_RESP_ERR_NO_ERROR)
        feed->HearLogEnd(high);
      continue;
    }
    rd_kafka_resp_err_t error;
    if (const auto end = AskLogEnd(admin_, partition, std::chrono::milliseconds(kRequestTimeout), error)) {
      feed->HearLogEnd(*end);
    } else if (error == RD_KAFKA_RESP_ERR__TIMED_OUT || error == RD_KAFKA_RESP_ERR__TRANSPORT) {
      return;  // nobody there: the next ones would only wait as long
    }
  }
}

bool ClusterWatch::AskCounts(const std::set<std::string>& topics, Counts& counts) {
  std::erase_if(known_, [&](const auto& entry) { return !topics.contains(entry.first); });
  for (const auto& topic : topics) {
    auto& handle = known_[topic];
    if (handle == nullptr) handle.reset(rd_kafka_topic_new(admin_, topic.c_str(), nullptr));
  }
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(admin_, 0, nullptr, &raw, kRequestTimeout) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  const std::unique_ptr<const rd_kafka_metadata_t, Deleter<&rd_kafka_metadata_destroy>> metadata(raw);
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const auto& topic = metadata->topics[i];
    if (topic.err == RD_KAFKA_RESP_ERR_NO_ERROR && topic.partition_cnt > 0 && topics.contains(topic.topic))
      counts.emplace_back(topic.topic, topic.partition_cnt);
  }
  std::sort(counts.begin(), counts.end());
  return true;
}

}  // namespace posthorn::kafka
