#include "worker/kafka/offset_store.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "worker/kafka/client.h"
#include "worker/kafka/commit_planner.h"
#include "worker/kafka/log_bounds.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/offset_client.h"
#include "worker/kafka/retention.h"
#include "worker/kafka/steady.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::Position;
using delivery::TopicPartition;
using runtime::Log;
using runtime::LogLevel;

constexpr int kAliveTimeout = 500;   // ms
constexpr int kFreshTimeout = 2000;  // ms: a new client may try a broker that is away first
constexpr auto kSeenFor = 500ms;     // how long a sign of life, or none, is believed
constexpr auto kHeldCheck = 100ms;   // beside OnConfirmed, should a guard not call

}  // namespace

class KafkaOffsetStore::Impl {
 public:
  Impl(const ClientConfig& config, Options options, ClientPtr first, ClientPtr asking)
      : config_(config), patience_(options.patience), planner_(ToPlan(options), std::random_device{}()) {
    clients_.push_back(Wrap(std::move(first), patience_));
    if (asking != nullptr) retention_ = std::make_unique<RetentionQuestion>(std::move(asking));
    stats_.retention = std::chrono::duration_cast<std::chrono::milliseconds>(CommitPlanner::Options().retention);
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
    under_way_.clear();
    clients_.clear();  // their last answers still find this object
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

  Fetched Fetch(const std::vector<Key>& keys, std::chrono::milliseconds timeout) {
    return FetchPositions(config_.fleet(), keys, Now() + timeout,
                          [this](const std::string& name) { return ClientFor(name); });
  }

  std::optional<std::pair<Offset, Offset>> Bounds(const TopicPartition& partition, std::chrono::milliseconds timeout) {
    const auto client = ClientFor("");
    rd_kafka_resp_err_t error;
    if (const auto bounds = AskBounds(client->client.get(), partition, timeout / 2, error)) return bounds;
    Log(LogLevel::kWarning, "bounds of a partition not known",
        {{"topic", partition.topic}, {"partition", partition.partition}, {"error", rd_kafka_err2name(error)}});
    return std::nullopt;
  }

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

  void WriteAgain() {
    {
      const std::lock_guard lock(mutex_);
      planner_.WriteAgain(Now());
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
  struct UnderWay {
    CommitPlanner::Batch batch;
    std::vector<PositionToWrite> positions;
    OffsetClientRef client;
    Time sent;
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

  OffsetClientRef Wrap(ClientPtr client, std::chrono::milliseconds patience) {
    return std::make_shared<OffsetClient>(std::move(client), patience, [this] { Wake(); });
  }
  OffsetClientRef ClientFor(const std::string& subscription) {
    const std::lock_guard lock(mutex_);
    return clients_[std::hash<std::string>{}(subscription) % clients_.size()];
  }
  [[nodiscard]] std::string GroupOf(const std::string& subscription) const {
    return config_.fleet() + "." + subscription;
  }

  void Run();
  OffsetClientRef NewOne(std::chrono::milliseconds patience);
  void GrowTo(std::uint32_t count);
  [[nodiscard]] bool MayAsk(const OffsetClientRef& client);
  void Send(CommitPlanner::Batch batch);
  void ReadAnswers();
  void ReplaceSilent();
  void GiveBackWritesOf(const OffsetClientRef& client);
  [[nodiscard]] std::optional<Time> OldestOpen(const OffsetClientRef& client) const;
  void Answered(const UnderWay& request, const WriteAnswer& answer);
  void AskRetention();

  const ClientConfig config_;
  const std::chrono::milliseconds patience_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CommitPlanner planner_;
  CommitPlanner::Calls calls_;
  OffsetStoreStats stats_;
  std::vector<OffsetClientRef> clients_;  // changed by the thread alone
  delivery::MembershipGuard* guard_ = nullptr;
  Time sleeps_until_ = Time::max();
  bool held_ = false;  // by the guard: nothing is written
  bool woken_ = false;
  bool stop_ = false;

  // The thread's.
  std::map<std::uintptr_t, UnderWay> under_way_;  // by the order of sending
  std::uintptr_t sent_ = 0;
  std::map<const OffsetClient*, std::pair<Time, bool>> seen_;  // until when: the brokers do or do not answer
  Time look_again_ = Time::max();                              // for clients that owe an answer
  Time try_at_ = Time::min();                                  // not before: nobody answered anybody
  std::unique_ptr<RetentionQuestion> retention_;
  LogLimit errors_{10s};

  std::thread thread_;
};

void KafkaOffsetStore::Impl::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    woken_ = false;
    CommitPlanner::Calls calls = std::exchange(calls_, {});
    held_ = guard_ != nullptr && !guard_->Confirmed();
    std::vector<CommitPlanner::Batch> batches;
    if (!held_) batches = planner_.Take(Now());
    const std::uint32_t wanted = planner_.clients();
    lock.unlock();

    for (auto& [done, good] : calls) done(good);
    if (!batches.empty()) GrowTo(wanted);
    for (auto& batch : batches) Send(std::move(batch));
    ReadAnswers();
    ReplaceSilent();
    AskRetention();

    lock.lock();
    sleeps_until_ = held_ ? Now() + kHeldCheck : planner_.wake_at();
    sleeps_until_ = std::min(sleeps_until_, look_again_);
    if (retention_ != nullptr) sleeps_until_ = std::min(sleeps_until_, retention_->wake_at());
    const auto ready = [this] { return stop_ || woken_ || !calls_.empty(); };
    if (sleeps_until_ == Time::max())
      changed_.wait(lock, ready);
    else
      changed_.wait_until(lock, sleeps_until_, ready);
  }
}

OffsetClientRef KafkaOffsetStore::Impl::NewOne(std::chrono::milliseconds patience) {
  std::string error;
  auto client = NewClient(config_, Role::kAdmin, error);
  if (client != nullptr) return Wrap(std::move(client), patience);
  if (const auto silent = errors_.Admit(RD_KAFKA_RESP_ERR__FAIL, Now()))
    Log(LogLevel::kError, "no further client for offsets", {{"error", error}, {"not logged", *silent}});
  return nullptr;
}

void KafkaOffsetStore::Impl::GrowTo(std::uint32_t count) {
  while (clients_.size() < count) {
    auto client = NewOne(patience_);
    if (client == nullptr) return;
    const std::lock_guard lock(mutex_);
    clients_.push_back(std::move(client));
  }
}

// The brokers are asked for a sign of life first, unless one was just seen: a write must not wait inside
// librdkafka until they are back (kCoordinatorTimeout).
bool KafkaOffsetStore::Impl::MayAsk(const OffsetClientRef& client) {
  const Time now = Now();
  auto& [until, alive] = seen_[client.get()];
  if (now < until) return alive;
  alive = Reachable(client->client.get(), kAliveTimeout);
  until = Now() + kSeenFor;
  return alive;
}

void KafkaOffsetStore::Impl::Send(CommitPlanner::Batch batch) {
  const auto tag = ++sent_;
  // The plan may be ahead of the clients when one could not be made.
  UnderWay request{std::move(batch), {}, nullptr, Now()};
  request.client = clients_[request.batch.client % clients_.size()];
  for (const auto& item : request.batch.items) request.positions.push_back({item.partition, item.position});
  if (!MayAsk(request.client)) {
    Answered(request,
             {std::vector<bool>(request.positions.size(), false), RD_KAFKA_RESP_ERR__TRANSPORT, "no broker answers"});
    return;
  }
  const auto& kept = under_way_.emplace(tag, std::move(request)).first->second;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.requests;
  }
  SendPositions(*kept.client, GroupOf(kept.batch.subscription), kept.positions, tag);
}

void KafkaOffsetStore::Impl::ReadAnswers() {
  for (const auto& client : clients_) {
    while (const EventPtr event{rd_kafka_queue_poll(client->writes.get(), 0)}) {
      if (rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_ALTERCONSUMERGROUPOFFSETS_RESULT) continue;
      --client->open_writes;
      seen_[client.get()] = {Now() + kSeenFor, true};
      const auto found = under_way_.find(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event.get())));
      if (found == under_way_.end()) continue;
      const auto request = std::move(found->second);
      under_way_.erase(found);
      const auto answer = ReadWriteAnswer(event.get(), request.positions);
      client->Heard(answer.error);
      Answered(request, answer);
    }
  }
}

std::optional<Time> KafkaOffsetStore::Impl::OldestOpen(const OffsetClientRef& client) const {
  for (const auto& [tag, request] : under_way_)
    if (request.client == client) return request.sent;
  return std::nullopt;
}

// When to look again is in `look_again_`. A write that was lost inside a client is never applied; should one be after
// all, what it puts back comes again.
void KafkaOffsetStore::Impl::ReplaceSilent() {
  const Time now = Now();
  look_again_ = Time::max();
  for (auto& client : clients_) {
    const Time at = std::max(client->ReplaceAt(OldestOpen(client)), try_at_);
    look_again_ = std::min(look_again_, at);
    if (now < at) continue;
    const bool astray = client->astray_since.load() != Time::max();
    auto fresh = NewOne(astray ? patience_ : std::min<std::chrono::milliseconds>(client->patience * 2, 1h));
    if (fresh == nullptr || !Reachable(fresh->client.get(), kFreshTimeout)) {  // nobody answers anybody
      try_at_ = look_again_ = Now() + patience_ / 2;
      continue;
    }
    Log(LogLevel::kWarning, "a client for offsets gets no answer that counts, another takes its place",
        {{"why", astray ? "it asks a broker that is not the coordinator any more" : "requests stay unanswered"}});
    seen_.erase(client.get());
    const auto old = client;
    {
      const std::lock_guard lock(mutex_);
      client = std::move(fresh);
    }
    GiveBackWritesOf(old);
  }
}

void KafkaOffsetStore::Impl::GiveBackWritesOf(const OffsetClientRef& client) {
  for (auto entry = under_way_.begin(); entry != under_way_.end();) {
    if (entry->second.client != client) {
      ++entry;
      continue;
    }
    const auto request = std::move(entry->second);
    entry = under_way_.erase(entry);
    Answered(request, {std::vector<bool>(request.positions.size(), false), RD_KAFKA_RESP_ERR__TIMED_OUT, "no answer"});
  }
}

void KafkaOffsetStore::Impl::Answered(const UnderWay& request, const WriteAnswer& answer) {
  const auto good = static_cast<std::uint64_t>(std::count(answer.stored.begin(), answer.stored.end(), true));
  if (good != answer.stored.size()) {
    if (const auto silent = errors_.Admit(answer.error, Now()))
      Log(LogLevel::kWarning, "offsets not stored, tried again",
          {{"group", GroupOf(request.batch.subscription)},
           {"error", rd_kafka_err2name(answer.error)},
           {"text", answer.text},
           {"not logged", *silent}});
  }
  const std::lock_guard lock(mutex_);
  stats_.partitions_written += good;
  if (good != answer.stored.size()) ++stats_.failures;
  planner_.Done(request.batch, answer.stored, Now(), calls_);
  woken_ = true;
}

void KafkaOffsetStore::Impl::AskRetention() {
  if (retention_ == nullptr || !retention_->Step(Now())) return;
  const auto found = retention_->found();
  retention_.reset();
  const std::lock_guard lock(mutex_);
  stats_.retention = found;
  planner_.SetRetention(found, Now());
}

KafkaOffsetStore::KafkaOffsetStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KafkaOffsetStore::~KafkaOffsetStore() = default;

std::unique_ptr<KafkaOffsetStore> KafkaOffsetStore::Create(const ClientConfig& config, Options options,
                                                           std::string& error) {
  auto client = NewClient(config, Role::kAdmin, error);
  // The embedded broker answers no question about its configuration.
  auto asking = config.embedded() || client == nullptr ? nullptr : NewClient(config, Role::kAdmin, error);
  if (client == nullptr || (asking == nullptr && !config.embedded())) return nullptr;
  return std::unique_ptr<KafkaOffsetStore>(
      new KafkaOffsetStore(std::make_unique<Impl>(config, options, std::move(client), std::move(asking))));
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
void KafkaOffsetStore::WriteAgain() { impl_->WriteAgain(); }
OffsetStoreStats KafkaOffsetStore::stats() const { return impl_->stats(); }

}  // namespace posthorn::kafka
