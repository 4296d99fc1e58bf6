#include "worker/cli/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "config/rfc3339.h"
#include "config/sources/config_watch.h"
#include "worker/admin/admin_pages.h"
#include "worker/admin/admin_server.h"
#include "worker/cli/config_source.h"
#include "worker/cli/control_wiring.h"
#include "worker/delivery/dispatcher.h"
#include "worker/delivery/replay_inbox.h"
#include "worker/fleet/limit_book.h"
#include "worker/http/curl_sender.h"
#include "worker/kafka/dead_letter_producer.h"
#include "worker/kafka/fleet_topics.h"
#include "worker/kafka/membership.h"
#include "worker/kafka/offset_store.h"
#include "worker/kafka/reader_pool.h"
#include "worker/kafka/retry_producer.h"
#include "worker/runtime/asio_loop.h"
#include "worker/runtime/log.h"

namespace posthorn::cli {
namespace {

using runtime::Log;
using runtime::LogLevel;

constexpr std::uint32_t kMaxShards = 64;

/// Half of `memory` is for messages we hold, the other half for what the Kafka client has fetched ahead.
constexpr std::uint64_t OwnPart(std::uint64_t memory) { return memory / 2; }

class LogObserver final : public config::ConfigObserver {
 public:
  explicit LogObserver(std::string source) : source_(std::move(source)) {}

  void OnAccepted(const config::SnapshotPtr& snapshot) override {
    Log(LogLevel::kInfo, "configuration accepted",
        {{"revision", snapshot->digest},
         {"number", snapshot->source_revision},
         {"subscriptions", snapshot->subscriptions.size()},
         {"instances", snapshot->instances ? std::to_string(*snapshot->instances) : std::string("by partition")}});
  }
  void OnRefused(const config::Refusal& refusal) override {
    Log(LogLevel::kError, "configuration refused, the running one stays",
        {{"revision", refusal.digest}, {"number", refusal.source_revision}, {"faults", refusal.faults.size()}});
    for (const auto& fault : refusal.faults) {
      Log(LogLevel::kError, "configuration fault", {{"fault", config::ToString(fault)}});
    }
  }
  void OnSourceFailed(const std::string& why) override {
    Log(LogLevel::kWarning, "configuration source cannot be read, the running one stays",
        {{"source", source_}, {"why", why}});
  }
  void OnSourceRecovered() override { Log(LogLevel::kInfo, "configuration source answers again"); }
  void OnScheduled(const config::SnapshotPtr& snapshot) override {
    Log(LogLevel::kInfo, "configuration accepted, in force later",
        {{"revision", snapshot->digest},
         {"number", snapshot->source_revision},
         {"effective_at", config::FormatRfc3339(*snapshot->effective_at)}});
    const auto far = config::FarAheadNote(*snapshot, runtime::SystemClock().Read().wall);
    if (!far.empty()) Log(LogLevel::kWarning, far);
  }
  void OnLastGood(const config::SnapshotPtr& snapshot, std::chrono::milliseconds age) override {
    Log(LogLevel::kWarning, "configuration source gives nothing to run: its last good revision is in force",
        {{"revision", snapshot->digest},
         {"number", snapshot->source_revision},
         {"subscriptions", snapshot->subscriptions.size()},
         {"age_s", std::chrono::duration_cast<std::chrono::seconds>(age).count()}});
  }
  void OnCacheFailed(const std::string& why) override {
    Log(LogLevel::kWarning, "the last good configuration is not kept or cannot be used", {{"why", why}});
  }

 private:
  const std::string source_;
};

/// Ends the process when stopping takes longer than it may: whoever started us must be able to count on it.
class StopWatchdog {
 public:
  explicit StopWatchdog(std::chrono::milliseconds limit)
      : thread_([this, limit] {
          std::unique_lock lock(mutex_);
          if (!done_.wait_for(lock, limit, [this] { return finished_; })) {
            Log(LogLevel::kError, "stopping took too long, ending at once; nothing is lost, duplicates may follow");
            _exit(1);
          }
        }) {}
  ~StopWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  std::thread thread_;
};

void WarnOfShortRetention(const config::Snapshot& snapshot, std::chrono::milliseconds retention) {
  for (const auto& subscription : snapshot.subscriptions) {
    if (subscription.ttl < retention) continue;
    Log(LogLevel::kWarning, "`ttl` is not below `retry_topic.retention`: a parked message may be lost",
        {{"subscription", subscription.name}});
  }
}

double PhaseOf(const std::string& instance) {
  return static_cast<double>(std::hash<std::string>{}(instance) % 1024) / 1024.0;
}

}  // namespace

/// In the order of construction; destroyed from the bottom up.
struct WorkerProcess::Parts {
  Parts(kafka::ClientConfig config, std::string source) : client(std::move(config)), observer(std::move(source)) {}
  kafka::ClientConfig client;
  LogObserver observer;
  std::shared_ptr<delivery::MemoryBudget> memory;
  std::vector<std::unique_ptr<runtime::AsioLoop>> loops;
  std::vector<std::unique_ptr<http::CurlSender>> senders;
  std::unique_ptr<kafka::KafkaDeadLetterSink> dead_letters;
  std::unique_ptr<kafka::KafkaRetrySink> retry;
  std::unique_ptr<kafka::KafkaOffsetStore> offsets;
  std::unique_ptr<kafka::Membership> membership;
  std::unique_ptr<kafka::KafkaReaderPool> readers;  // the shards' lanes hold what it has opened
  std::vector<std::unique_ptr<delivery::Shard>> shards;
  std::unique_ptr<fleet::LimitBook> limits;
  std::unique_ptr<delivery::Dispatcher> dispatcher;
  std::unique_ptr<ControlWiring> control;  // null: static shares
  std::unique_ptr<delivery::ReplayInbox> replays;
  std::unique_ptr<config::ConfigWatch> watch;
  std::unique_ptr<admin::AdminServer> admin;
  bool running = false;
};

WorkerProcess::WorkerProcess(Options options) : options_(std::move(options)) {}

WorkerProcess::~WorkerProcess() { Stop(); }

bool WorkerProcess::Start(std::string* why) {
  const auto& deployment = options_.deployment;
  auto& clock = runtime::SystemClock();
  auto client = kafka::ClientConfig::From(deployment, options_.embedded_broker);
  if (const auto faults = client.Faults(); !faults.empty()) {
    for (const auto& fault : faults) *why += (why->empty() ? "" : "\n") + fault;
    return false;
  }
  auto source = MakeConfigSource(deployment, why);
  if (source == nullptr) return false;
  parts_ = std::make_unique<Parts>(std::move(client), config::ToString(deployment.source));
  auto& p = *parts_;
  p.memory = std::make_shared<delivery::MemoryBudget>(OwnPart(deployment.memory));

  const auto fleet_producer = kafka::MakeFleetProducer(p.client, kafka::RetryTopicOptions::From(deployment), *why);
  if (!fleet_producer) return false;
  p.dead_letters = std::make_unique<kafka::KafkaDeadLetterSink>(fleet_producer);
  p.retry = std::make_unique<kafka::KafkaRetrySink>(fleet_producer);
  kafka::KafkaOffsetStore::Options store_options;
  store_options.requests_per_second = deployment.commit_requests_per_second;
  p.offsets = kafka::KafkaOffsetStore::Create(p.client, store_options, *why);
  if (!p.offsets) return false;
  p.membership = kafka::Membership::Create(p.client, *why);
  if (!p.membership) return false;
  p.offsets->UseGuard(*p.membership);

  kafka::KafkaReaderPool::Options reader_options;
  reader_options.per_partition = deployment.own_readers;
  p.readers = std::make_unique<kafka::KafkaReaderPool>(p.client, reader_options);

  const auto wanted = deployment.shards != 0 ? deployment.shards : std::max(1U, std::thread::hardware_concurrency());
  const auto shard_count = std::min(wanted, kMaxShards);
  for (std::uint32_t i = 0; i < shard_count; ++i) {
    p.loops.push_back(std::make_unique<runtime::AsioLoop>(clock, "shard-" + std::to_string(i)));
    p.senders.push_back(std::make_unique<http::CurlSender>(*p.loops[i]));
  }
  for (std::uint32_t i = 0; i < shard_count; ++i) {
    delivery::Shard::Parts parts;
    parts.index = i;
    parts.loop = p.loops[i].get();
    parts.clock = &clock;
    parts.sender = p.senders[i].get();
    parts.offsets = p.offsets.get();
    parts.dead_letters = p.dead_letters.get();
    parts.retry = p.retry.get();
    parts.max_unfinished = deployment.max_unfinished;
    parts.readers = p.readers.get();
    parts.guard = p.membership.get();
    parts.longest_gap = p.client.session_timeout() / 2;
    parts.seed = std::hash<std::string>{}(deployment.instance) + i * 7919U +
                 static_cast<std::uint64_t>(clock.Read().wall.time_since_epoch().count());
    parts.wake_shard = [&p](std::uint32_t shard) {
      if (shard >= p.shards.size()) return;
      p.loops[shard]->Post([target = p.shards[shard].get()] { target->PumpAll(); });
    };
    parts.ask_retry_progress = [&p](const std::string& subscription) { p.dispatcher->AskRetryProgress(subscription); };
    p.shards.push_back(std::make_unique<delivery::Shard>(std::move(parts)));
  }

  fleet::LimitBook::Options limit_options;
  limit_options.slot = deployment.slot;
  limit_options.phase = PhaseOf(deployment.instance);
  limit_options.retry_topic = p.retry->topic();
  limit_options.timing.max_clock_offset = deployment.max_clock_offset;
  limit_options.timing.session_timeout = p.client.session_timeout();
  // The embedded broker stamps no records and finds none by time: no log to fence coordinators, no clock to measure by.
  const bool adaptive = deployment.shares == config::Shares::kAdaptive && !options_.embedded_broker;
  if (adaptive) limit_options.by_lease = ControlWiring::NewProcess(deployment, clock.Read().wall);
  p.limits = std::make_unique<fleet::LimitBook>(limit_options);

  delivery::Dispatcher::Parts dispatcher_parts;
  for (auto& shard : p.shards) dispatcher_parts.shards.push_back(shard.get());
  dispatcher_parts.clock = &clock;
  dispatcher_parts.limits = p.limits.get();
  dispatcher_parts.offsets = p.offsets.get();
  dispatcher_parts.memory = p.memory;
  dispatcher_parts.retry_topic = p.retry->topic();
  dispatcher_parts.subscribe = [&p](std::set<std::string> topics) { p.membership->Subscribe(std::move(topics)); };
  p.dispatcher = std::make_unique<delivery::Dispatcher>(std::move(dispatcher_parts));
  p.membership->OnConfirmed([&p] { p.dispatcher->WakeShards(); });
  if (adaptive) {
    ControlWiring::Parts control_parts;
    control_parts.clock = &clock;
    control_parts.limits = p.limits.get();
    control_parts.process = *limit_options.by_lease;
    control_parts.demand = [&p](const runtime::Now& now) {
      return fleet::DemandOf(p.dispatcher->Subscriptions(), now);
    };
    control_parts.wake = [&p] { p.dispatcher->WakeShards(); };
    p.control = ControlWiring::Create(deployment, control_parts, why);
    if (!p.control) return false;
  }
  delivery::ReplayInbox::Parts replay_parts;
  replay_parts.dispatcher = p.dispatcher.get();
  replay_parts.offsets = p.offsets.get();
  replay_parts.guard = p.membership.get();
  replay_parts.clock = &clock;
  p.replays = std::make_unique<delivery::ReplayInbox>(replay_parts);

  config::ConfigWatchOptions watch_options;
  watch_options.capabilities = options_.capabilities;
  watch_options.cache = deployment.source.cache;
  watch_options.cache_name = deployment.fleet;
  watch_options.source_identity = config::ToString(deployment.source);
  watch_options.wall_clock = [&clock] { return clock.Read().wall; };
  p.watch = std::make_unique<config::ConfigWatch>(std::move(source), std::move(watch_options), &p.observer);
  p.watch->ListenScheduled([&p](const config::SnapshotPtr& snapshot) { p.dispatcher->Announce(snapshot); });
  p.watch->Listen([&p, retention = deployment.retry_retention](const config::SnapshotPtr& snapshot) {
    WarnOfShortRetention(*snapshot, retention);
    p.dispatcher->Apply(snapshot);
  });

  if (!deployment.admin.empty()) {
    admin::AdminSources sources;
    sources.instance = deployment.instance;
    sources.slot = deployment.slot;
    sources.clock = &clock;
    for (auto& loop : p.loops) sources.loops.push_back(loop.get());
    sources.dispatcher = p.dispatcher.get();
    sources.limits = p.limits.get();
    sources.control = p.control ? &p.control->plane() : nullptr;
    sources.watch = p.watch.get();
    sources.membership = p.membership.get();
    sources.offsets = p.offsets.get();
    sources.dead_letters = p.dead_letters.get();
    sources.retry = p.retry.get();
    sources.memory = p.memory;
    p.admin = admin::MakeAdminServer(deployment.admin, std::move(sources));
    if (!p.admin->Start(why)) return false;
  }

  for (std::uint32_t i = 0; i < shard_count; ++i) {
    p.loops[i]->Post([shard = p.shards[i].get()] { shard->Start(); });
    p.loops[i]->Start();
  }
  p.running = true;
  p.membership->Start(*p.dispatcher, [](const std::string& reason) {
    Log(LogLevel::kError,
        "another process has taken this instance name: everything is given up, nothing is delivered here until nobody "
        "has the name any more",
        {{"why", reason}});
  });
  if (p.control) p.control->Start();
  p.watch->Start();
  p.replays->Start();
  Log(LogLevel::kInfo, "worker started",
      {{"fleet", deployment.fleet},
       {"instance", deployment.instance},
       {"slot", deployment.slot ? std::to_string(*deployment.slot) : std::string("none")},
       {"shards", shard_count},
       {"shares", adaptive ? "adaptive" : "static"},
       {"subscriptions", p.watch->DescribeSource()}});
  return true;
}

void WorkerProcess::Stop(bool for_good) {
  if (!parts_) return;
  auto& p = *parts_;
  const auto limit = options_.deployment.shutdown_timeout;
  const StopWatchdog watchdog(limit);
  if (p.running) {
    p.running = false;
    p.watch->Stop();
    p.replays->Stop();
    p.dispatcher->StopReconciling();
    // Half of the time is for what is in flight, a part of the rest for storing offsets, some for leaving the group,
    // a tenth for everything after: a Kafka that is away must not keep the process from ending by itself.
    p.dispatcher->SetDrainLimit(limit / 2);
    p.dispatcher->SetFlushLimit(std::min<std::chrono::milliseconds>(limit / 4, std::chrono::seconds(5)));
    // Gives every partition back: drains, stores, closes.
    p.membership->Stop(for_good ? kafka::Membership::Farewell::kLeave : kafka::Membership::Farewell::kByMembership,
                       limit - limit / 10);
    if (p.control) p.control->Stop();
    if (p.admin) p.admin->Stop();
    p.control.reset();
    p.offsets.reset();  // writes what is still noted
    p.dead_letters.reset();
    p.retry.reset();
    for (std::size_t i = 0; i < p.shards.size(); ++i) {
      std::promise<void> gone;
      p.loops[i]->Post([&] {
        p.shards[i].reset();
        gone.set_value();
      });
      gone.get_future().wait();
    }
    p.readers.reset();
    for (auto& loop : p.loops) loop->Stop();
  }
  parts_.reset();
}

}  // namespace posthorn::cli
