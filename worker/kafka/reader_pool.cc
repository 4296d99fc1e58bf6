#include "worker/kafka/reader_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "worker/kafka/client.h"
#include "worker/kafka/log_bounds.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/partition_feed.h"
#include "worker/kafka/steady.h"
#include "worker/kafka/watchdog.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::TopicPartition;

constexpr auto kTick = 500ms;        // errors are looked at, idle clients closed, what failed is tried again
constexpr auto kSeekRetry = 20ms;    // until fetching has begun
constexpr auto kSeekTimeout = 1000;  // ms

/// What a reader and the pool's thread share.
struct Shared {
  Shared(TopicPartition of, Offset from) : partition(std::move(of)), start(from) {}
  const TopicPartition partition;
  std::mutex mutex;
  Offset start;
  std::function<void()> wake;
  std::shared_ptr<QueueFeed> feed;         // guarded; set once
  std::atomic<QueueFeed*> ready{nullptr};  // the same, for the one who reads
};

}  // namespace

class KafkaReaderPool::Impl final : public FeedHost {
 public:
  Impl(const ClientConfig& config, Options options) : config_(config), options_(options), thread_([this] { Run(); }) {}
  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void Open(const std::shared_ptr<Shared>& reader) { Ask({reader, /*open=*/true}); }
  void Close(const std::shared_ptr<Shared>& reader) { Ask({reader, /*open=*/false}); }

  // FeedHost
  void RequestSeek(std::shared_ptr<QueueFeed> feed, Offset offset, std::uint64_t ticket) override {
    {
      const std::lock_guard lock(mutex_);
      seeks_.push_back({std::move(feed), offset, ticket});
    }
    changed_.notify_one();
  }
  void RequestKick(const TopicPartition& partition) override {
    {
      const std::lock_guard lock(mutex_);
      kicks_.push_back(partition);
    }
    changed_.notify_one();
  }

  const Options& options() const { return options_; }
  State state() const { return {clients_shown_.load(), readers_shown_.load()}; }

 private:
  struct Wish {
    std::shared_ptr<Shared> reader;
    bool open;
  };
  struct Seek {
    std::shared_ptr<QueueFeed> feed;
    Offset offset = 0;
    std::uint64_t ticket = 0;
  };
  struct Client {
    ClientPtr client;
    QueuePtr events;
    QueueLimits limits;
    std::map<std::string, TopicPtr> topics;
    std::map<TopicPartition, std::shared_ptr<Shared>> readers;
    Time idle_since{};
    rd_kafka_topic_t* Topic(const std::string& name) {
      auto& topic = topics[name];
      if (topic == nullptr) topic.reset(rd_kafka_topic_new(client.get(), name.c_str(), nullptr));
      return topic.get();
    }
  };

  void Ask(Wish wish) {
    {
      const std::lock_guard lock(mutex_);
      wishes_.push_back(std::move(wish));
    }
    changed_.notify_one();
  }
  void Run();
  bool Start(const std::shared_ptr<Shared>& reader);
  void End(const std::shared_ptr<Shared>& reader);
  void Serve(std::vector<Seek> seeks);
  void Kick(const std::vector<TopicPartition>& partitions);
  void LookAfterClients();
  Client* FreeClient(const TopicPartition& partition);
  Client* ClientOf(const QueueFeed& feed);

  const ClientConfig config_;
  const Options options_;
  std::atomic<std::size_t> clients_shown_{0};
  std::atomic<std::size_t> readers_shown_{0};

  // The thread's.
  std::vector<std::unique_ptr<Client>> clients_;
  std::deque<std::shared_ptr<Shared>> failed_;  // to be opened yet
  LogLimit errors_{10s};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Wish> wishes_;
  std::vector<Seek> seeks_;
  std::vector<TopicPartition> kicks_;
  std::thread thread_;  // last: starts when everything above is there
};

namespace {

/// Empty until the pool's thread has begun to read.
class Reader final : public delivery::PartitionFeed {
 public:
  Reader(std::shared_ptr<Shared> shared, std::function<void()> close)
      : shared_(std::move(shared)), close_(std::move(close)) {}
  ~Reader() override {
    OnReadable(nullptr);
    close_();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const TopicPartition& partition() const override { return shared_->partition; }
  std::size_t Read(std::size_t max_records, std::size_t max_bytes, std::vector<delivery::RecordPtr>& out) override {
    auto* feed = shared_->ready.load(std::memory_order_acquire);
    return feed == nullptr ? 0 : feed->Read(max_records, max_bytes, out);
  }
  void OnReadable(std::function<void()> wake) override {
    std::shared_ptr<QueueFeed> feed;
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->wake = wake;
      feed = shared_->feed;
    }
    if (feed != nullptr) feed->OnReadable(std::move(wake));
  }
  void SeekTo(Offset offset) override {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->feed == nullptr) {
      shared_->start = offset;
    } else {
      shared_->feed->SeekTo(offset);
    }
  }
  Offset LogEnd() const override {
    auto* feed = shared_->ready.load(std::memory_order_acquire);
    return feed == nullptr ? -1 : feed->LogEnd();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::function<void()> close_;
};

}  // namespace

void KafkaReaderPool::Impl::Run() {
  std::unique_lock lock(mutex_);
  Time look_at = Now() + kTick;
  while (!stop_) {
    if (wishes_.empty() && seeks_.empty() && kicks_.empty()) {
      const bool idle = clients_.empty() && failed_.empty();
      const auto something = [this] { return stop_ || !wishes_.empty() || !seeks_.empty() || !kicks_.empty(); };
      if (idle) {
        changed_.wait(lock, something);
      } else {
        changed_.wait_until(lock, look_at, something);
      }
    }
    const auto wishes = std::exchange(wishes_, {});
    auto seeks = std::exchange(seeks_, {});
    const auto kicks = std::exchange(kicks_, {});
    lock.unlock();
    for (const auto& [reader, open] : wishes) {
      if (!open) {
        End(reader);
      } else if (!Start(reader)) {
        failed_.push_back(reader);
      }
    }
    Serve(std::move(seeks));
    Kick(kicks);
    if (const Time now = Now(); now >= look_at) {
      LookAfterClients();
      look_at = now + kTick;
    }
    lock.lock();
  }
  lock.unlock();
  const Watchdog watchdog("closing readers");
  while (!clients_.empty()) {
    while (!clients_.back()->readers.empty()) End(clients_.back()->readers.begin()->second);
    clients_.pop_back();
  }
}

KafkaReaderPool::Impl::Client* KafkaReaderPool::Impl::FreeClient(const TopicPartition& partition) {
  for (auto& client : clients_)
    if (!client->readers.contains(partition)) return client.get();
  std::string error;
  auto conf = BuildConf(config_, Role::kReader, error);
  auto fresh = std::make_unique<Client>();
  if (conf != nullptr) {
    fresh->limits = LimitsOf(conf.get());
    fresh->client = NewClient(std::move(conf), Role::kReader, error);
  }
  if (fresh->client == nullptr) {
    if (const auto silent = errors_.Admit(0, Now()))
      runtime::Log(runtime::LogLevel::kWarning, "a further reader cannot be made now, trying again",
                   {{"error", error}, {"not logged", *silent}});
    return nullptr;
  }
  fresh->events.reset(rd_kafka_queue_get_main(fresh->client.get()));
  clients_.push_back(std::move(fresh));
  clients_shown_ = clients_.size();
  return clients_.back().get();
}

bool KafkaReaderPool::Impl::Start(const std::shared_ptr<Shared>& reader) {
  Client* client = FreeClient(reader->partition);
  if (client == nullptr) return false;
  const auto& partition = reader->partition;
  QueuePtr queue(rd_kafka_queue_new(client->client.get()));
  auto* const raw_queue = queue.get();
  const auto feed =
      std::make_shared<QueueFeed>(*this, client->client.get(), partition, std::move(queue), client->limits);
  Offset start = 0;
  {
    const std::lock_guard lock(reader->mutex);
    start = reader->start;
  }
  feed->StartAt(start);
  if (rd_kafka_consume_start_queue(client->Topic(partition.topic), partition.partition, start, raw_queue) != 0) {
    const auto error = rd_kafka_last_error();
    if (const auto silent = errors_.Admit(error, Now()))
      runtime::Log(runtime::LogLevel::kWarning, "a reader cannot start, trying again",
                   {{"topic", partition.topic},
                    {"partition", partition.partition},
                    {"error", rd_kafka_err2name(error)},
                    {"not logged", *silent}});
    feed->Close();
    return false;
  }
  client->readers[partition] = reader;
  ++readers_shown_;
  std::function<void()> wake;
  {
    const std::lock_guard lock(reader->mutex);
    if (reader->start != start) feed->SeekTo(reader->start);
    if (reader->wake) feed->OnReadable(reader->wake);
    reader->feed = feed;
    reader->ready.store(feed.get(), std::memory_order_release);
    wake = reader->wake;
  }
  // Whoever looked before has found nothing, and what came before OnReadable may have gone unannounced.
  if (wake) wake();
  return true;
}

void KafkaReaderPool::Impl::End(const std::shared_ptr<Shared>& reader) {
  std::erase(failed_, reader);
  for (auto& client : clients_) {
    const auto found = client->readers.find(reader->partition);
    if (found == client->readers.end() || found->second != reader) continue;
    // Nobody reads it any more: whoever had it has let go.
    reader->feed->Close();
    rd_kafka_consume_stop(client->Topic(reader->partition.topic), reader->partition.partition);
    client->readers.erase(found);
    --readers_shown_;
    if (client->readers.empty()) client->idle_since = Now();
    return;
  }
}

KafkaReaderPool::Impl::Client* KafkaReaderPool::Impl::ClientOf(const QueueFeed& feed) {
  for (auto& client : clients_) {
    const auto found = client->readers.find(feed.partition());
    if (found != client->readers.end() && found->second->ready.load() == &feed) return client.get();
  }
  return nullptr;
}

void KafkaReaderPool::Impl::Serve(std::vector<Seek> seeks) {
  std::vector<Seek> again;
  for (auto& seek : seeks) {
    Client* client = ClientOf(*seek.feed);
    if (client == nullptr || seek.feed->closed()) continue;
    const auto& [topic, number] = seek.feed->partition();
    if (rd_kafka_seek(client->Topic(topic), number, seek.offset, kSeekTimeout) == RD_KAFKA_RESP_ERR_NO_ERROR)
      seek.feed->SeekDone(seek.ticket);
    else
      again.push_back(std::move(seek));
  }
  if (again.empty()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kSeekRetry, [this] { return stop_; });
  std::move(again.begin(), again.end(), std::back_inserter(seeks_));
}

void KafkaReaderPool::Impl::Kick(const std::vector<TopicPartition>& partitions) {
  for (const auto& partition : partitions) {
    for (auto& client : clients_) {
      if (!client->readers.contains(partition)) continue;
      WakeFetcher(client->client.get(), partition);
    }
  }
}

void KafkaReaderPool::Impl::LookAfterClients() {
  const Time now = Now();
  auto failed = std::exchange(failed_, {});
  for (const auto& reader : failed)
    if (!Start(reader)) failed_.push_back(reader);
  for (auto& client : clients_) {
    while (const EventPtr event{rd_kafka_queue_poll(client->events.get(), 0)}) {
      if (rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_ERROR) continue;
      const auto error = rd_kafka_event_error(event.get());
      if (const auto silent = errors_.Admit(error, now))
        runtime::Log(runtime::LogLevel::kWarning, "reader error, goes on by itself",
                     {{"error", rd_kafka_err2name(error)},
                      {"text", rd_kafka_event_error_string(event.get())},
                      {"not logged", *silent}});
    }
  }
  std::erase_if(clients_, [&](const auto& client) {
    return client->readers.empty() && now - client->idle_since >= options_.idle;
  });
  clients_shown_ = clients_.size();
}

KafkaReaderPool::KafkaReaderPool(const ClientConfig& config, Options options)
    : impl_(std::make_unique<Impl>(config, options)) {}
KafkaReaderPool::~KafkaReaderPool() = default;

std::size_t KafkaReaderPool::per_partition() const { return impl_->options().per_partition; }

std::shared_ptr<delivery::PartitionFeed> KafkaReaderPool::Open(const TopicPartition& partition, Offset offset) {
  auto shared = std::make_shared<Shared>(partition, offset);
  auto reader = std::make_shared<Reader>(shared, [impl = impl_.get(), shared] { impl->Close(shared); });
  impl_->Open(shared);
  return reader;
}

KafkaReaderPool::State KafkaReaderPool::state() const { return impl_->state(); }

}  // namespace posthorn::kafka
