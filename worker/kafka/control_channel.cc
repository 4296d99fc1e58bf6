#include "worker/kafka/control_channel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "worker/kafka/acked_producer.h"
#include "worker/kafka/client.h"
#include "worker/kafka/cluster_questions.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/partition_lists.h"
#include "worker/kafka/steady.h"
#include "worker/kafka/watchdog.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using runtime::Log;
using runtime::LogLevel;
using runtime::WallTime;

constexpr std::size_t kDemand = 0;
constexpr std::size_t kGrants = 1;
constexpr auto kRetention = 600s;         // a lease is over after seconds
constexpr auto kLookBack = 60s;           // several leases, and clocks that are kept badly
constexpr auto kQuiet = 20s;              // no lease is left of what is older, nor a window that a coordinator needs
constexpr int kMostInQuiet = 1'000;       // records: one coordinator at its fastest, every 20 ms
constexpr int kReadAgain = 1'000;         // reports: what was said while nobody listened
constexpr auto kQuestionTimeout = 500ms;  // with one question
constexpr auto kTopicsAgain = 200ms;
constexpr auto kClientAgain = 500ms;
constexpr int kPoll = 100;  // ms
constexpr auto kLeaveTimeout = 3s;

std::vector<AckedProducer::Topic> Topics(const std::string& fleet, const ControlChannel::Options& options) {
  std::vector<AckedProducer::Topic> topics(2);
  for (auto& topic : topics) {
    topic.partitions = options.partitions;
    topic.replication = options.replication.value_or(AckedProducer::kUpToThree);
    topic.max_bytes = kControlRecordBytes;
    const auto retention = std::to_string(std::chrono::milliseconds(kRetention).count());
    topic.settings = {{"cleanup.policy", "delete"},
                      {"retention.ms", retention},
                      {"segment.ms", retention},
                      // By the brokers' clocks: each worker measures its own against them.
                      {"message.timestamp.type", "LogAppendTime"},
                      // The order of the log is what keeps two coordinators apart.
                      {"unclean.leader.election.enable", "false"}};
  }
  topics[kDemand].name = fleet + ".demand";
  topics[kDemand].what = "topic of the workers' demand";
  topics[kGrants].name = fleet + ".grants";
  topics[kGrants].what = "topic of the coordinators' grants";
  return topics;
}

/// For each partition where to begin: kLookBack before now, and, whatever the brokers' clocks say, early enough for
/// every lease that may be in use. Null: not all was answered.
PartitionListPtr StartOfLog(ClusterQuestions& cluster, const std::string& topic, std::int32_t partitions,
                            WallTime now) {
  auto list = NewPartitionList(static_cast<std::size_t>(partitions));
  // The end first: where nothing is as new as asked for, nothing between the questions may be missed.
  std::vector<std::pair<delivery::Offset, delivery::Offset>> bounds;
  for (std::int32_t p = 0; p < partitions; ++p) {
    const auto found = cluster.Bounds({topic, p});
    if (!found) return nullptr;
    bounds.push_back(*found);
  }
  const auto lately = cluster.FirstSince(topic, partitions, now - kQuiet);
  const auto since = lately ? cluster.FirstSince(topic, partitions, now - kLookBack) : std::nullopt;
  if (!since) return nullptr;
  for (std::int32_t p = 0; p < partitions; ++p) {
    const auto index = static_cast<std::size_t>(p);
    const auto [first, end] = bounds[index];
    auto start = std::min({end, (*since)[index].value_or(end), (*lately)[index].value_or(end)});
    // A coordinator writes in every second. So there is none, or the broker's clock is behind and its stamps say
    // nothing.
    if (!(*lately)[index]) start = std::min(start, std::max(first, end - kMostInQuiet));
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), p)->offset = start;
  }
  return list;
}

void WarnOfStamps() {
  Log(LogLevel::kWarning,
      "the topic of the workers' demand has not `message.timestamp.type=LogAppendTime`: this worker's clock is not "
      "compared with the brokers', and a wrong one not noticed");
}

std::string_view ValueOf(const rd_kafka_message_t& message) {
  return {static_cast<const char*>(message.payload), message.len};
}

}  // namespace

class ControlChannel::Impl {
 public:
  Impl(const ClientConfig& config, const Options& options, std::shared_ptr<AckedProducer> producer)
      : config_(config), clock_(options.clock), producer_(std::move(producer)) {}
  ~Impl() { Stop(); }

  void Start(ControlListener& listener) {
    listener_ = &listener;
    reader_ = std::thread([this] { Read(); });
  }
  void SetCandidate(bool candidate) { candidate_.store(candidate, std::memory_order_release); }
  void Write(std::size_t topic, std::int32_t partition, std::string_view bytes);
  [[nodiscard]] Stats stats() const;
  void Stop();

 private:
  void Read();
  ClientPtr AwaitClient(Role role, const char* what);
  std::int32_t AwaitTopics();
  PartitionListPtr AwaitStartOfLog(std::int32_t partitions);
  void ReadLog(rd_kafka_t& client, std::int32_t partitions);
  void Coordinate();
  void ApplyCandidacy(rd_kafka_t& client);
  void Serve(rd_kafka_t& client, const rd_kafka_event_t& event);
  void Assigned(rd_kafka_t& client, const rd_kafka_topic_partition_list_t& list);
  void Revoked(rd_kafka_t& client, const rd_kafka_topic_partition_list_t& list);
  void Leave(ClientPtr client);
  void Wait(std::chrono::milliseconds time);
  void Complain(rd_kafka_resp_err_t error, const char* text, const char* what);
  [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  const ClientConfig config_;
  runtime::Clock* const clock_;
  const std::shared_ptr<AckedProducer> producer_;
  ControlListener* listener_ = nullptr;

  std::atomic<bool> stopping_{false};
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  std::atomic<bool> candidate_{true};
  std::atomic<std::int32_t> partitions_{0};

  std::mutex errors_mutex_;
  LogLimit errors_{10s};

  // The answers of the producer come until it is gone, which may be after this.
  struct Answers {
    std::mutex mutex;
    ControlListener* listener = nullptr;
    bool unstamped = false;  // a report was stored without the broker's time
  };
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();

  // The coordinating thread's.
  std::set<std::int32_t> owned_;
  bool subscribed_ = false;
  bool assigned_ = false;  // since it subscribed

  std::thread reader_;
  std::thread member_;
};

void ControlChannel::Impl::Write(std::size_t topic, std::int32_t partition, std::string_view bytes) {
  AckedProducer::Outgoing record;
  record.topic = topic;
  record.partition = partition;
  record.value = bytes;
  const WallTime sent = clock_->Read().wall;
  producer_->Write(
      record, [topic, partition, sent, clock = clock_, answers = answers_](const AckedProducer::Answer& answer) {
        if (topic != kDemand || !answer.offset) return;
        const WallTime known = clock->Read().wall;
        const std::lock_guard lock(answers->mutex);
        if (!answer.stored_ms) {
          if (!std::exchange(answers->unstamped, true)) WarnOfStamps();
        } else if (answers->listener != nullptr) {
          answers->listener->OnStored(partition, sent, WallTime(std::chrono::milliseconds(*answer.stored_ms)), known);
        }
      });
}

ControlChannel::Stats ControlChannel::Impl::stats() const {
  const auto demand = producer_->stats(kDemand);
  const auto grants = producer_->stats(kGrants);
  return {demand.written + grants.written, demand.failed + grants.failed, demand.in_flight + grants.in_flight};
}

void ControlChannel::Impl::Wait(std::chrono::milliseconds time) {
  std::unique_lock lock(stop_mutex_);
  stop_changed_.wait_for(lock, time, [this] { return stopping(); });
}

void ControlChannel::Impl::Complain(rd_kafka_resp_err_t error, const char* text, const char* what) {
  const std::lock_guard lock(errors_mutex_);
  if (const auto silent = errors_.Admit(error, Now())) {
    Log(LogLevel::kWarning, "control topics: error, goes on by itself",
        {{"of", what}, {"error", rd_kafka_err2name(error)}, {"text", text}, {"not logged", *silent}});
  }
}

/// Null: stopping. The settings are good, so what is missing (threads, files) may be there later.
ClientPtr ControlChannel::Impl::AwaitClient(Role role, const char* what) {
  while (!stopping()) {
    std::string error;
    if (auto client = NewClient(config_, role, error)) return client;
    Complain(RD_KAFKA_RESP_ERR__FAIL, error.c_str(), what);
    Wait(kClientAgain);
  }
  return nullptr;
}

// ---- the log of grants

/// 0: stopping.
std::int32_t ControlChannel::Impl::AwaitTopics() {
  bool told = false;
  while (!stopping()) {
    std::string error;
    const auto cluster = ClusterQuestions::Create(config_, kQuestionTimeout, error);
    while (cluster != nullptr && !stopping()) {
      const auto demand = cluster->Partitions(producer_->name_of(kDemand));
      const auto grants = demand ? cluster->Partitions(producer_->name_of(kGrants)) : std::nullopt;
      if (demand && grants && *demand > 0 && *grants > 0) {
        if (*demand != *grants) {
          Log(LogLevel::kError, "the control topics differ in their number of partitions, the lower one counts",
              {{"demand", *demand}, {"grants", *grants}});
        }
        return std::min(*demand, *grants);
      }
      if (!told && !grants) Log(LogLevel::kInfo, "waiting for the control topics", {{"why", cluster->last_error()}});
      told = told || !grants;
      Wait(kTopicsAgain);  // brokers tell nobody that a topic is there
    }
    if (cluster == nullptr) Wait(kTopicsAgain);
  }
  return 0;
}

/// Null: stopping.
PartitionListPtr ControlChannel::Impl::AwaitStartOfLog(std::int32_t partitions) {
  std::string error;
  while (!stopping()) {
    const auto cluster = ClusterQuestions::Create(config_, kQuestionTimeout, error);
    auto start = cluster == nullptr
                     ? nullptr
                     : StartOfLog(*cluster, producer_->name_of(kGrants), partitions, clock_->Read().wall);
    if (start != nullptr) return start;
    Wait(kTopicsAgain);
  }
  return nullptr;
}

void ControlChannel::Impl::Read() {
  const std::int32_t partitions = AwaitTopics();
  if (partitions == 0) return;
  partitions_.store(partitions);
  auto client = AwaitClient(Role::kControlReader, "reading grants");
  if (client == nullptr) return;
  {
    const std::lock_guard lock(answers_->mutex);
    answers_->listener = listener_;
  }
  listener_->OnReady(partitions);
  member_ = std::thread([this] { Coordinate(); });
  ReadLog(*client, partitions);
  const Watchdog watchdog("destroying the reader of grants");
  client.reset();
}

void ControlChannel::Impl::ReadLog(rd_kafka_t& client, std::int32_t partitions) {
  rd_kafka_poll_set_consumer(&client);
  const auto list = AwaitStartOfLog(partitions);
  if (list == nullptr) return;
  if (const auto error = rd_kafka_assign(&client, list.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Complain(error, rd_kafka_err2str(error), "reading grants");
  }
  std::set<std::int32_t> ended;
  while (!stopping()) {
    const MessagePtr message(rd_kafka_consumer_poll(&client, kPoll));
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      listener_->OnLog(message->partition, ValueOf(*message));
    } else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      if (ended.insert(message->partition).second) listener_->OnLogEnd(message->partition);
    } else {
      Complain(message->err, rd_kafka_message_errstr(message.get()), "reading grants");
    }
  }
}

// ---- who coordinates

void ControlChannel::Impl::Coordinate() {
  auto client = AwaitClient(Role::kControlMember, "the group of coordinators");
  if (client == nullptr) return;
  rd_kafka_poll_set_consumer(client.get());
  QueuePtr queue(rd_kafka_queue_get_consumer(client.get()));
  while (!stopping()) {
    ApplyCandidacy(*client);
    const EventPtr event(rd_kafka_queue_poll(queue.get(), kPoll));
    if (event != nullptr) Serve(*client, *event);
  }
  queue.reset();
  Leave(std::move(client));
}

void ControlChannel::Impl::ApplyCandidacy(rd_kafka_t& client) {
  const bool wanted = candidate_.load(std::memory_order_acquire);
  if (wanted == subscribed_) return;
  subscribed_ = wanted;
  assigned_ = false;
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  if (wanted) {
    const auto list = NewPartitionList(1);
    rd_kafka_topic_partition_list_add(list.get(), producer_->name_of(kDemand).c_str(), RD_KAFKA_PARTITION_UA);
    error = rd_kafka_subscribe(&client, list.get());
  } else {
    error = rd_kafka_unsubscribe(&client);
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  subscribed_ = !wanted;
  Complain(error, rd_kafka_err2str(error), "the group of coordinators");
}

void ControlChannel::Impl::Serve(rd_kafka_t& client, const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);  // librdkafka's accessors take it so
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_REBALANCE: {
      const auto* list = rd_kafka_event_topic_partition_list(event);
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        Assigned(client, *list);
      } else {
        Revoked(client, *list);
      }
      return;
    }
    case RD_KAFKA_EVENT_FETCH:
      while (const auto* message = rd_kafka_event_message_next(event)) {
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && owned_.contains(message->partition)) {
          listener_->OnReport(message->partition, ValueOf(*message));
        }
      }
      return;
    case RD_KAFKA_EVENT_ERROR:
      if (const char* text = rd_kafka_event_error_string(event); text != nullptr && !stopping()) {
        Complain(rd_kafka_event_error(event), text, "the group of coordinators");
      }
      return;
    default:
      return;
  }
}

void ControlChannel::Impl::Assigned(rd_kafka_t& client, const rd_kafka_topic_partition_list_t& given) {
  assigned_ = true;
  const PartitionListPtr list(rd_kafka_topic_partition_list_copy(&given));
  for (int i = 0; i < list->cnt; ++i) {
    // Who has left says so only once, and whoever coordinated before may have left with it. Old reports do no harm.
    list->elems[i].offset = RD_KAFKA_OFFSET_TAIL(kReadAgain);
    if (!stopping() && owned_.insert(list->elems[i].partition).second)
      listener_->OnOwned(list->elems[i].partition, true);
  }
  const ErrorPtr error(rd_kafka_incremental_assign(&client, list.get()));
  if (error != nullptr) Complain(rd_kafka_error_code(error.get()), rd_kafka_error_string(error.get()), "assign");
}

void ControlChannel::Impl::Revoked(rd_kafka_t& client, const rd_kafka_topic_partition_list_t& given) {
  for (int i = 0; i < given.cnt; ++i) {
    if (owned_.erase(given.elems[i].partition) != 0) listener_->OnOwned(given.elems[i].partition, false);
  }
  const ErrorPtr error(rd_kafka_incremental_unassign(&client, &given));
  if (error != nullptr) Complain(rd_kafka_error_code(error.get()), rd_kafka_error_string(error.get()), "unassign");
}

void ControlChannel::Impl::Leave(ClientPtr client) {
  const Watchdog watchdog("leaving the group of coordinators");
  const Time deadline = Now() + kLeaveTimeout;
  {
    const QueuePtr queue(rd_kafka_queue_new(client.get()));
    const ErrorPtr refused(rd_kafka_consumer_close_queue(client.get(), queue.get()));
    while (refused == nullptr && rd_kafka_consumer_closed(client.get()) == 0 && Now() < deadline) {
      const EventPtr event(rd_kafka_queue_poll(queue.get(), 10));
      if (event != nullptr) Serve(*client, *event);
    }
  }
  const bool closed = rd_kafka_consumer_closed(client.get()) != 0;
  // librdkafka dies when a cooperative member is destroyed between a change of its subscription and the assignment that
  // follows (before 2.3 after the first join, until 2.12 while it puts the change off).
  const bool deadly = !assigned_ && subscribed_;
  if (deadly || !closed) {
    Abandon(std::move(client));
    return;
  }
  rd_kafka_destroy_flags(client.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void ControlChannel::Impl::Stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    if (stopping_.exchange(true)) return;
  }
  stop_changed_.notify_all();
  {
    const std::lock_guard lock(answers_->mutex);
    answers_->listener = nullptr;
  }
  if (reader_.joinable()) reader_.join();
  if (member_.joinable()) member_.join();
}

ControlChannel::Options ControlChannel::Options::From(const config::Deployment& deployment) {
  Options options;
  options.partitions = static_cast<int>(deployment.control_partitions);
  if (deployment.control_replication) options.replication = static_cast<int>(*deployment.control_replication);
  return options;
}

ControlChannel::ControlChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlChannel::~ControlChannel() = default;

std::unique_ptr<ControlChannel> ControlChannel::Create(const ClientConfig& config, const Options& options,
                                                       std::string& error) {
  auto producer = AckedProducer::Create(config, Topics(config.fleet(), options), error, AckedProducer::Pace::kControl);
  if (producer == nullptr) return nullptr;
  return std::unique_ptr<ControlChannel>(
      new ControlChannel(std::make_unique<Impl>(config, options, std::move(producer))));
}

void ControlChannel::Start(ControlListener& listener) { impl_->Start(listener); }
void ControlChannel::SetCandidate(bool candidate) { impl_->SetCandidate(candidate); }
void ControlChannel::Report(std::int32_t partition, std::string_view bytes) { impl_->Write(kDemand, partition, bytes); }
void ControlChannel::Append(std::int32_t partition, std::string_view bytes) { impl_->Write(kGrants, partition, bytes); }
ControlChannel::Stats ControlChannel::stats() const { return impl_->stats(); }
void ControlChannel::Stop() { impl_->Stop(); }

}  // namespace posthorn::kafka
