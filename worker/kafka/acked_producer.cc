#include "worker/kafka/acked_producer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/kafka/client.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/produce.h"
#include "worker/kafka/steady.h"
#include "worker/kafka/watchdog.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using runtime::Log;
using runtime::LogLevel;

constexpr int kCreateTimeout = 10'000;  // ms
constexpr auto kCreateRetry = 2s;
constexpr auto kFlushAtEnd = 2s;
constexpr int kIdlePoll = 500;        // ms
constexpr int kBrokersTimeout = 500;  // ms

using NewTopicPtr = std::unique_ptr<rd_kafka_NewTopic_t, Deleter<&rd_kafka_NewTopic_destroy>>;

/// 0: nobody answers.
int CountBrokers(rd_kafka_t* client) {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(client, 0, nullptr, &metadata, kBrokersTimeout) != RD_KAFKA_RESP_ERR_NO_ERROR) return 0;
  const int brokers = metadata->broker_cnt;
  rd_kafka_metadata_destroy(metadata);
  return brokers;
}

}  // namespace

class AckedProducer::Impl {
 public:
  Impl(const ClientConfig& config, Role role, std::vector<Topic> topics, ClientPtr client)
      : config_(config),
        role_(role),
        topics_(std::move(topics)),
        client_(std::move(client)),
        stats_(topics_.size()),
        wanted_(topics_.size()) {
    queue_.reset(rd_kafka_queue_get_main(client_.get()));
    creation_.resize(topics_.size());
    for (auto& creation : creation_) creation.done = config.embedded();
    for (std::size_t i = 0; i < topics_.size(); ++i) wanted_[i].store(topics_[i].at_start);
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    stop_.store(true, std::memory_order_release);
    Wake();
    thread_.join();
    const Watchdog watchdog("destroying the producer of the fleet's topics");
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    queue_.reset();
    client_.reset();
    for (auto& [tag, waiting] : std::exchange(waiting_, {})) waiting.done({});
    for (auto& waiting : std::exchange(refused_, {})) waiting.done({});
  }

  void Ensure(std::size_t topic) {
    if (!wanted_[topic].exchange(true)) Wake();
  }
  void Write(const Outgoing& record, Done done);

  [[nodiscard]] const std::string& name_of(std::size_t topic) const { return topics_[topic].name; }
  [[nodiscard]] Stats stats(std::size_t topic) const {
    const std::lock_guard lock(mutex_);
    return stats_[topic];
  }

 private:
  struct Waiting {
    std::size_t topic = 0;
    Done done;
    bool too_large = false;
  };
  struct Creation {
    bool done = false;
    Time at = Time::min();
    int replication = -1;  // asked for
  };
  void Wake() {
    const std::lock_guard lock(client_mutex_);
    if (queue_ != nullptr) rd_kafka_queue_yield(queue_.get());
  }
  void Run();
  void AnswerRefused();
  void Serve(const rd_kafka_event_t& event);
  void Delivered(const rd_kafka_message_t& message);
  void CreateTopic(std::size_t topic);
  void CreateTopics();
  void Answered(std::size_t topic, bool good);  // mutex_ held
  void TopicCreated(const rd_kafka_event_t& event);
  void Renew();
  void Complain(rd_kafka_resp_err_t error, const std::string& text, const std::string& what);

  const ClientConfig config_;
  const Role role_;
  const std::vector<Topic> topics_;
  std::atomic<bool> stop_{false};

  std::mutex client_mutex_;  // the client is replaced after a fatal error
  ClientPtr client_;
  QueuePtr queue_;

  mutable std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Waiting> waiting_;
  std::vector<Waiting> refused_;
  std::uintptr_t tags_ = 0;
  std::vector<Stats> stats_;
  std::vector<std::atomic<bool>> wanted_;  // topics that are to exist

  // The thread's.
  std::vector<Creation> creation_;
  bool fatal_ = false;
  LogLimit errors_{10s};

  std::thread thread_;
};

void AckedProducer::Impl::Write(const Outgoing& record, Done done) {
  std::uintptr_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = ++tags_;
    waiting_.emplace(tag, Waiting{record.topic, std::move(done), false});
    ++stats_[record.topic].in_flight;
  }
  ProduceRequest request;
  request.topic = topics_[record.topic].name.c_str();
  request.partition = record.partition < 0 ? RD_KAFKA_PARTITION_UA : record.partition;
  request.key = record.key;
  request.value = record.value;
  request.headers = record.headers;
  request.opaque = reinterpret_cast<void*>(tag);
  ErrorPtr error;
  {
    const std::lock_guard lock(client_mutex_);
    error = Produce(client_.get(), request);
  }
  if (error == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    refused_.push_back(std::move(waiting_.extract(tag).mapped()));
    refused_.back().too_large = rd_kafka_error_code(error.get()) == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
  }
  Wake();
}

void AckedProducer::Impl::Answered(std::size_t topic, bool good) {
  --stats_[topic].in_flight;
  ++(good ? stats_[topic].written : stats_[topic].failed);
}

void AckedProducer::Impl::Run() {
  while (!stop_.load(std::memory_order_acquire)) {
    AnswerRefused();
    if (fatal_) Renew();
    CreateTopics();
    const EventPtr event(rd_kafka_queue_poll(queue_.get(), kIdlePoll));
    if (event != nullptr) Serve(*event);
  }
  const Time deadline = Now() + kFlushAtEnd;
  while (Now() < deadline) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) break;
    }
    const EventPtr event(rd_kafka_queue_poll(queue_.get(), 50));
    if (event != nullptr) Serve(*event);
  }
  AnswerRefused();
}

void AckedProducer::Impl::AnswerRefused() {
  std::vector<Waiting> refused;
  {
    const std::lock_guard lock(mutex_);
    refused = std::exchange(refused_, {});
    for (const auto& waiting : refused) Answered(waiting.topic, false);
  }
  for (auto& waiting : refused) waiting.done({std::nullopt, waiting.too_large, std::nullopt});
}

void AckedProducer::Impl::Serve(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);  // librdkafka's accessors take it so
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
      while (const auto* message = rd_kafka_event_message_next(event)) Delivered(*message);
      return;
    case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
      TopicCreated(*event);
      return;
    case RD_KAFKA_EVENT_ERROR:
      Complain(rd_kafka_event_error(event), rd_kafka_event_error_string(event), "");
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(event) != 0)
        fatal_ = true;
      return;
    default:
      return;
  }
}

void AckedProducer::Impl::Delivered(const rd_kafka_message_t& message) {
  const bool good = message.err == RD_KAFKA_RESP_ERR_NO_ERROR;
  Waiting waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(reinterpret_cast<std::uintptr_t>(message._private));
    if (found == waiting_.end()) return;
    waiting = std::move(found->second);
    waiting_.erase(found);
    Answered(waiting.topic, good);
  }
  if (!good) Complain(message.err, rd_kafka_message_errstr(&message), topics_[waiting.topic].name);
  Answer answer;
  answer.too_large = message.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
  if (good) {
    answer.offset = message.offset;
    auto stamped_by = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    const auto stamp = rd_kafka_message_timestamp(&message, &stamped_by);
    if (stamped_by == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME) answer.stored_ms = stamp;
  }
  waiting.done(answer);
}

void AckedProducer::Impl::Complain(rd_kafka_resp_err_t error, const std::string& text, const std::string& topic) {
  if (const auto silent = errors_.Admit(error, Now()))
    Log(LogLevel::kWarning, "producer of the fleet's topics: error",
        {{"topic", topic}, {"error", rd_kafka_err2name(error)}, {"text", text}, {"not logged", *silent}});
}

void AckedProducer::Impl::CreateTopics() {
  for (std::size_t i = 0; i < topics_.size(); ++i) {
    if (wanted_[i].load() && !creation_[i].done && Now() >= creation_[i].at) CreateTopic(i);
  }
}

void AckedProducer::Impl::CreateTopic(std::size_t index) {
  auto& creation = creation_[index];
  const auto& wanted = topics_[index];
  creation.replication = wanted.replication;
  if (wanted.replication == kUpToThree) {
    creation.replication = std::min(CountBrokers(client_.get()), 3);
    if (creation.replication == 0) {
      creation.at = Now() + kCreateRetry;
      return;
    }
  }
  creation.at = Time::max();  // until the answer
  char text[256];
  const NewTopicPtr topic(
      rd_kafka_NewTopic_new(wanted.name.c_str(), wanted.partitions, creation.replication, text, sizeof text));
  if (topic == nullptr) {
    Complain(RD_KAFKA_RESP_ERR__INVALID_ARG, text, wanted.name);
    return;
  }
  for (const auto& [name, value] : wanted.settings) {
    rd_kafka_NewTopic_set_config(topic.get(), name.c_str(), value.c_str());
  }
  // One broker may be down, and still nothing that was acknowledged is in one place only.
  if (creation.replication > 0)
    rd_kafka_NewTopic_set_config(topic.get(), "min.insync.replicas", creation.replication >= 3 ? "2" : "1");
  rd_kafka_NewTopic_set_config(topic.get(), "max.message.bytes", std::to_string(wanted.max_bytes).c_str());
  auto* raw = topic.get();
  const auto options = NewAdminOptions(client_.get(), RD_KAFKA_ADMIN_OP_CREATETOPICS, kCreateTimeout, index + 1);
  rd_kafka_CreateTopics(client_.get(), &raw, 1, options.get(), queue_.get());
}

void AckedProducer::Impl::TopicCreated(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);
  const auto index = reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event)) - 1;
  if (index >= topics_.size()) return;
  const auto& topic = topics_[index];
  auto& creation = creation_[index];
  rd_kafka_resp_err_t error = rd_kafka_event_error(event);
  std::string text = error != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_event_error_string(event) : "";
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    std::size_t count = 0;
    const auto** topics = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    if (count == 1) {
      error = rd_kafka_topic_result_error(topics[0]);
      if (const char* why = rd_kafka_topic_result_error_string(topics[0])) text = why;
    }
  }
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      if (creation.replication > 0) {
        Log(LogLevel::kInfo, topic.what + " created", {{"topic", topic.name}, {"replicas", creation.replication}});
      } else {
        Log(LogLevel::kInfo, topic.what + " created", {{"topic", topic.name}});
      }
      creation.done = true;
      return;
    case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
      creation.done = true;
      return;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
      Log(LogLevel::kWarning, topic.what + " may not be created by this worker: create it by hand",
          {{"topic", topic.name}, {"error", rd_kafka_err2name(error)}, {"text", text}});
      creation.done = true;
      return;
    default:
      Complain(error, "creating the topic: " + text, topic.name);
      creation.at = Now() + kCreateRetry;
  }
}

// After a fatal error an idempotent producer takes and sends nothing more.
void AckedProducer::Impl::Renew() {
  std::string error;
  auto fresh = NewClient(config_, role_, error);
  if (fresh == nullptr) {
    Complain(RD_KAFKA_RESP_ERR__FATAL, error, "");
    return;
  }
  Log(LogLevel::kWarning, "producer of the fleet's topics replaced after a fatal error");
  rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  // The reports of what was purged.
  while (const EventPtr event{rd_kafka_queue_poll(queue_.get(), 100)})
    if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_DR) Serve(*event);
  ClientPtr old;
  QueuePtr old_queue;
  {
    const std::lock_guard lock(client_mutex_);
    old_queue = std::exchange(queue_, QueuePtr(rd_kafka_queue_get_main(fresh.get())));
    old = std::exchange(client_, std::move(fresh));
  }
  old_queue.reset();
  fatal_ = false;
  for (auto& creation : creation_) creation.at = Time::min();
}

AckedProducer::AckedProducer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AckedProducer::~AckedProducer() = default;

std::shared_ptr<AckedProducer> AckedProducer::Create(const ClientConfig& config, std::vector<Topic> topics,
                                                     std::string& error, Pace pace) {
  const Role role = pace == Pace::kControl ? Role::kControlProducer : Role::kProducer;
  auto client = NewClient(config, role, error);
  if (client == nullptr) return nullptr;
  return std::shared_ptr<AckedProducer>(
      new AckedProducer(std::make_unique<Impl>(config, role, std::move(topics), std::move(client))));
}

void AckedProducer::Ensure(std::size_t topic) { impl_->Ensure(topic); }
void AckedProducer::Write(const Outgoing& record, Done done) { impl_->Write(record, std::move(done)); }
const std::string& AckedProducer::name_of(std::size_t topic) const { return impl_->name_of(topic); }
AckedProducer::Stats AckedProducer::stats(std::size_t topic) const { return impl_->stats(topic); }

}  // namespace posthorn::kafka
