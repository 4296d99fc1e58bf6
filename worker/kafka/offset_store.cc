#include "worker/kafka/offset_store.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include "worker/kafka/client.h"
#include "worker/kafka/commit_planner.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/retention.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::Position;
using delivery::TopicPartition;
using runtime::Log;
using runtime::LogLevel;
using Time = CommitPlanner::Time;

constexpr int kWriteTimeout = 10'000;  // ms
constexpr auto kHeldCheck = 100ms;     // beside OnConfirmed, should a guard not call
constexpr auto kFetchRetry = 100ms;

Time Now() { return std::chrono::steady_clock::now(); }

int MillisecondsUntil(Time deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

using AlterPtr =
    std::unique_ptr<rd_kafka_AlterConsumerGroupOffsets_t, Deleter<&rd_kafka_AlterConsumerGroupOffsets_destroy>>;
using ListPtr =
    std::unique_ptr<rd_kafka_ListConsumerGroupOffsets_t, Deleter<&rd_kafka_ListConsumerGroupOffsets_destroy>>;

// Which keys of a Fetch one group's request answers.
struct GroupFetch {
  std::string group;
  std::vector<std::size_t> keys;
  bool answered = false;
};

}  // namespace

class KafkaOffsetStore::Impl {
 public:
  Impl(const ClientConfig& config, Options options, ClientPtr first)
      : config_(config), planner_(ToPlan(options), std::random_device{}()) {
    AddClient(std::move(first));
    if (!config.embedded()) retention_ = std::make_unique<RetentionQuestion>(clients_[0].client.get());
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
    for (auto& client : clients_) rd_kafka_queue_cb_event_enable(client.queue.get(), nullptr, nullptr);
    planner_.Abandon(calls_);
    for (auto& [done, good] : calls_) done(good);
  }

  void UseGuard(delivery::MembershipGuard& guard) {
    {
      const std::lock_guard lock(mutex_);
      guard_ = &guard;
    }
    guard.OnConfirmed([this] { Wake(); });
  }

  Fetched Fetch(const std::vector<Key>& keys, std::chrono::milliseconds timeout);
  std::optional<std::pair<Offset, Offset>> Bounds(const TopicPartition& partition, std::chrono::milliseconds timeout);

  void Update(const Key& key, Position position, bool urgent, bool changed) {
    const Time now = Now();
    bool sooner = false;
    {
      const std::lock_guard lock(mutex_);
      planner_.Update(key, std::move(position), urgent, changed, now);
      sooner = !held_ && planner_.wake_at() < sleeps_until_;
    }
    if (sooner) Wake();
  }

  void Flush(const std::vector<Key>& keys, std::function<void(bool)> done) {
    {
      const std::lock_guard lock(mutex_);
      planner_.Flush(keys, std::move(done), calls_);
    }
    Wake();
  }

  void Drop(const std::vector<Key>& keys) {
    {
      const std::lock_guard lock(mutex_);
      planner_.Drop(keys, calls_);
    }
    Wake();
  }

  OffsetStoreStats stats() const {
    const std::lock_guard lock(mutex_);
    OffsetStoreStats result = stats_;
    const auto [count, oldest] = planner_.Waiting();
    result.waiting = count;
    if (oldest) result.oldest_unwritten = std::chrono::duration_cast<std::chrono::milliseconds>(Now() - *oldest);
    result.handles = static_cast<std::uint32_t>(clients_.size());
    return result;
  }

 private:
  struct Client {
    ClientPtr client;
    QueuePtr queue;  // its answers; declared after the client, gone before it
  };

  static CommitPlanner::Options ToPlan(const Options& options) {
    CommitPlanner::Options plan;
    plan.requests_per_second = std::max(1U, options.requests_per_second);
    plan.interval = options.interval;
    return plan;
  }

  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  void AddClient(ClientPtr client);
  void GrowTo(std::uint32_t count);
  void Run();
  void Send(CommitPlanner::Batch batch);
  void ReadAnswers();
  void Answer(const rd_kafka_event_t& event);
  [[nodiscard]] std::string GroupOf(const std::string& subscription) const {
    return config_.fleet() + "." + subscription;
  }
  [[nodiscard]] rd_kafka_t* ClientFor(const std::string& subscription) {
    const std::lock_guard lock(mutex_);
    return clients_[std::hash<std::string>{}(subscription) % clients_.size()].client.get();
  }

  const ClientConfig config_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CommitPlanner planner_;
  CommitPlanner::Calls calls_;
  OffsetStoreStats stats_;
  std::deque<Client> clients_;  // grows only, so that what points into it stays
  delivery::MembershipGuard* guard_ = nullptr;
  Time sleeps_until_ = Time::max();
  bool held_ = false;  // by the guard: nothing is written
  bool woken_ = false;
  bool stop_ = false;

  // The thread's.
  std::unordered_map<std::uintptr_t, CommitPlanner::Batch> under_way_;
  std::uintptr_t sent_ = 0;
  std::unique_ptr<RetentionQuestion> retention_;
  LogLimit errors_{10s};

  std::thread thread_;
};

void KafkaOffsetStore::Impl::AddClient(ClientPtr client) {
  QueuePtr queue(rd_kafka_queue_new(client.get()));
  rd_kafka_queue_cb_event_enable(
      queue.get(), [](rd_kafka_t*, void* self) { static_cast<Impl*>(self)->Wake(); }, this);
  const std::lock_guard lock(mutex_);
  clients_.push_back({std::move(client), std::move(queue)});
}

void KafkaOffsetStore::Impl::GrowTo(std::uint32_t count) {
  while (clients_.size() < count) {
    std::string error;
    auto client = NewClient(config_, Role::kAdmin, error);
    if (client == nullptr) {
      Log(LogLevel::kError, "no further client for offsets", {{"error", error}});
      return;
    }
    AddClient(std::move(client));
  }
}

void KafkaOffsetStore::Impl::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    woken_ = false;
    CommitPlanner::Calls calls = std::exchange(calls_, {});
    held_ = guard_ != nullptr && !guard_->Confirmed();
    const Time now = Now();
    std::vector<CommitPlanner::Batch> batches;
    if (!held_) batches = planner_.Take(now);
    const std::uint32_t wanted = planner_.clients();
    lock.unlock();

    for (auto& [done, good] : calls) done(good);
    if (!batches.empty()) GrowTo(wanted);
    for (auto& batch : batches) Send(std::move(batch));
    ReadAnswers();
    if (retention_ != nullptr && retention_->Step(Now())) {
      const auto found = retention_->found();
      lock.lock();
      stats_.retention = found;
      planner_.SetRetention(found, Now());
      lock.unlock();
      retention_.reset();
    }

    lock.lock();
    sleeps_until_ = held_ ? Now() + kHeldCheck : planner_.wake_at();
    if (retention_ != nullptr) sleeps_until_ = std::min(sleeps_until_, retention_->wake_at());
    const auto ready = [this] { return stop_ || woken_ || !calls_.empty(); };
    if (sleeps_until_ == Time::max())
      changed_.wait(lock, ready);
    else
      changed_.wait_until(lock, sleeps_until_, ready);
  }
}

void KafkaOffsetStore::Impl::Send(CommitPlanner::Batch batch) {
  // The plan may be ahead of the clients when one could not be made.
  auto& client = clients_[batch.client % clients_.size()];
  auto list = NewPartitionList(batch.items.size());
  for (const auto& item : batch.items) {
    auto* element =
        rd_kafka_topic_partition_list_add(list.get(), item.partition.topic.c_str(), item.partition.partition);
    element->offset = item.position.next;
    if (item.position.metadata.empty()) continue;
    // librdkafka frees it with the list.
    element->metadata_size = item.position.metadata.size();
    element->metadata = rd_kafka_mem_malloc(client.client.get(), element->metadata_size);
    std::copy(item.position.metadata.begin(), item.position.metadata.end(), static_cast<char*>(element->metadata));
  }
  AlterPtr request(rd_kafka_AlterConsumerGroupOffsets_new(GroupOf(batch.subscription).c_str(), list.get()));
  const auto tag = ++sent_;
  const auto options =
      NewAdminOptions(client.client.get(), RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS, kWriteTimeout, tag);
  under_way_.emplace(tag, std::move(batch));
  {
    const std::lock_guard lock(mutex_);
    ++stats_.requests;
  }
  auto* raw = request.get();
  rd_kafka_AlterConsumerGroupOffsets(client.client.get(), &raw, 1, options.get(), client.queue.get());
}

void KafkaOffsetStore::Impl::ReadAnswers() {
  for (auto& client : clients_)
    while (const EventPtr event{rd_kafka_queue_poll(client.queue.get(), 0)}) Answer(*event);
}

void KafkaOffsetStore::Impl::Answer(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);  // librdkafka's accessors take it so
  const auto* result = rd_kafka_event_AlterConsumerGroupOffsets_result(event);
  if (result == nullptr) return;
  const auto found = under_way_.find(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event)));
  if (found == under_way_.end()) return;
  const auto batch = std::move(found->second);
  under_way_.erase(found);

  std::vector<bool> stored(batch.items.size(), false);
  rd_kafka_resp_err_t error = rd_kafka_event_error(event);
  std::string text = error != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_event_error_string(event) : "";
  std::uint64_t good = 0;
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    std::size_t count = 0;
    const auto** groups = rd_kafka_AlterConsumerGroupOffsets_result_groups(result, &count);
    const auto* group_error = count == 1 ? rd_kafka_group_result_error(groups[0]) : nullptr;
    if (group_error != nullptr) {
      error = rd_kafka_error_code(group_error);
      text = rd_kafka_error_string(group_error);
    } else if (count == 1) {
      // The group's own error says nothing about the partitions.
      const auto* list = rd_kafka_group_result_partitions(groups[0]);
      for (std::size_t i = 0; i < batch.items.size(); ++i) {
        const auto& item = batch.items[i];
        const auto* element = rd_kafka_topic_partition_list_find(
            const_cast<rd_kafka_topic_partition_list_t*>(list), item.partition.topic.c_str(), item.partition.partition);
        stored[i] = element != nullptr && element->err == RD_KAFKA_RESP_ERR_NO_ERROR;
        if (stored[i]) {
          ++good;
        } else if (element != nullptr) {
          error = element->err;
          text = item.partition.topic + "/" + std::to_string(item.partition.partition) + ": " +
                 rd_kafka_err2str(element->err);
        }
      }
    }
  }
  if (good != batch.items.size()) {
    if (const auto silent = errors_.Admit(error, Now()))
      Log(LogLevel::kWarning, "offsets not stored, tried again",
          {{"group", GroupOf(batch.subscription)},
           {"error", rd_kafka_err2name(error)},
           {"text", text},
           {"not logged", *silent}});
  }
  const std::lock_guard lock(mutex_);
  stats_.partitions_written += good;
  if (good != batch.items.size()) ++stats_.failures;
  planner_.Done(batch, stored, Now(), calls_);
  woken_ = true;
}

KafkaOffsetStore::Fetched KafkaOffsetStore::Impl::Fetch(const std::vector<Key>& keys,
                                                        std::chrono::milliseconds timeout) {
  const Time deadline = Now() + timeout;
  std::vector<std::optional<Position>> positions(keys.size());
  std::map<std::string, GroupFetch> groups;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto& group = groups[keys[i].subscription];
    group.group = GroupOf(keys[i].subscription);
    group.keys.push_back(i);
  }
  // A broker may still be loading the offsets after a restart: asked again until the time is over.
  while (true) {
    struct Asked {
      QueuePtr queue;
      std::map<std::uintptr_t, GroupFetch*> groups;
    };
    std::map<rd_kafka_t*, Asked> asked;
    std::uintptr_t tag = 0;
    for (auto& [subscription, group] : groups) {
      if (group.answered) continue;
      auto* client = ClientFor(subscription);
      auto& of_client = asked[client];
      if (of_client.queue == nullptr) of_client.queue.reset(rd_kafka_queue_new(client));
      auto list = NewPartitionList(group.keys.size());
      for (const auto i : group.keys)
        rd_kafka_topic_partition_list_add(list.get(), keys[i].partition.topic.c_str(), keys[i].partition.partition);
      ListPtr request(rd_kafka_ListConsumerGroupOffsets_new(group.group.c_str(), list.get()));
      const auto options = NewAdminOptions(client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
                                           std::max(1, MillisecondsUntil(deadline)), ++tag);
      of_client.groups[tag] = &group;
      auto* raw = request.get();
      rd_kafka_ListConsumerGroupOffsets(client, &raw, 1, options.get(), of_client.queue.get());
    }
    if (asked.empty()) return positions;
    for (auto& [client, of_client] : asked) {
      while (!of_client.groups.empty()) {
        const EventPtr event(rd_kafka_queue_poll(of_client.queue.get(), MillisecondsUntil(deadline)));
        if (event == nullptr) return std::nullopt;
        const auto found = of_client.groups.find(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event.get())));
        if (found == of_client.groups.end()) continue;
        GroupFetch& group = *found->second;
        of_client.groups.erase(found);
        const auto* result = rd_kafka_event_ListConsumerGroupOffsets_result(event.get());
        if (result == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
        std::size_t count = 0;
        const auto** results = rd_kafka_ListConsumerGroupOffsets_result_groups(result, &count);
        if (count != 1 || rd_kafka_group_result_error(results[0]) != nullptr) continue;
        const auto* list = rd_kafka_group_result_partitions(results[0]);
        group.answered = true;
        for (const auto i : group.keys) {
          const auto* element =
              rd_kafka_topic_partition_list_find(const_cast<rd_kafka_topic_partition_list_t*>(list),
                                                 keys[i].partition.topic.c_str(), keys[i].partition.partition);
          if (element == nullptr || element->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            group.answered = false;
          } else if (element->offset >= 0) {
            positions[i] = Position{element->offset, element->metadata == nullptr
                                                         ? std::string()
                                                         : std::string(static_cast<const char*>(element->metadata),
                                                                       element->metadata_size)};
          }
        }
      }
    }
    if (std::all_of(groups.begin(), groups.end(), [](const auto& entry) { return entry.second.answered; }))
      return positions;
    if (Now() + kFetchRetry >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kFetchRetry);
  }
}

std::optional<std::pair<Offset, Offset>> KafkaOffsetStore::Impl::Bounds(const TopicPartition& partition,
                                                                        std::chrono::milliseconds timeout) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  const auto error = rd_kafka_query_watermark_offsets(ClientFor(""), partition.topic.c_str(), partition.partition, &low,
                                                      &high, static_cast<int>(timeout.count()));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return std::pair(low, high);
  Log(LogLevel::kWarning, "bounds of a partition not known",
      {{"topic", partition.topic}, {"partition", partition.partition}, {"error", rd_kafka_err2name(error)}});
  return std::nullopt;
}

KafkaOffsetStore::KafkaOffsetStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KafkaOffsetStore::~KafkaOffsetStore() = default;

std::unique_ptr<KafkaOffsetStore> KafkaOffsetStore::Create(const ClientConfig& config, Options options,
                                                           std::string& error) {
  auto client = NewClient(config, Role::kAdmin, error);
  if (client == nullptr) return nullptr;
  return std::unique_ptr<KafkaOffsetStore>(
      new KafkaOffsetStore(std::make_unique<Impl>(config, options, std::move(client))));
}

void KafkaOffsetStore::UseGuard(delivery::MembershipGuard& guard) { impl_->UseGuard(guard); }
KafkaOffsetStore::Fetched KafkaOffsetStore::Fetch(const std::vector<Key>& keys, std::chrono::milliseconds timeout) {
  return impl_->Fetch(keys, timeout);
}
std::optional<std::pair<Offset, Offset>> KafkaOffsetStore::Bounds(const TopicPartition& partition,
                                                                  std::chrono::milliseconds timeout) {
  return impl_->Bounds(partition, timeout);
}
void KafkaOffsetStore::Update(const Key& key, Position position, bool urgent, bool changed) {
  impl_->Update(key, std::move(position), urgent, changed);
}
void KafkaOffsetStore::Flush(const std::vector<Key>& keys, std::function<void(bool)> done) {
  impl_->Flush(keys, std::move(done));
}
void KafkaOffsetStore::Drop(const std::vector<Key>& keys) { impl_->Drop(keys); }
OffsetStoreStats KafkaOffsetStore::stats() const { return impl_->stats(); }

}  // namespace posthorn::kafka
