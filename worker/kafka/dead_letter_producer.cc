#include "worker/kafka/dead_letter_producer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/kafka/client.h"
#include "worker/kafka/dead_letter_headers.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/produce.h"
#include "worker/kafka/watchdog.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using runtime::Log;
using runtime::LogLevel;
using Time = std::chrono::steady_clock::time_point;

constexpr int kCreateTimeout = 10'000;  // ms
constexpr auto kCreateRetry = 2s;
constexpr auto kFlushAtEnd = 2s;
constexpr int kIdlePoll = 500;  // ms
// A record at the brokers' usual bound of 1 MiB must still fit with Posthorn's headers: a dead letter that cannot be
// written would hold its partition for ever.
constexpr const char* kMaxMessageBytes = "67108864";

Time Now() { return std::chrono::steady_clock::now(); }

using NewTopicPtr = std::unique_ptr<rd_kafka_NewTopic_t, Deleter<&rd_kafka_NewTopic_destroy>>;

}  // namespace

class KafkaDeadLetterSink::Impl {
 public:
  Impl(const ClientConfig& config, ClientPtr client)
      : config_(config), topic_(config.fleet() + ".dead-letters"), client_(std::move(client)) {
    queue_.reset(rd_kafka_queue_get_main(client_.get()));
    created_ = config.embedded();
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    stop_.store(true, std::memory_order_release);
    Wake();
    thread_.join();
    const Watchdog watchdog("destroying the dead-letter producer");
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    queue_.reset();
    client_.reset();
    for (auto& [tag, waiting] : std::exchange(waiting_, {})) waiting.done(false);
    for (auto& done : std::exchange(refused_, {})) done(false);
  }

  void Write(delivery::DeadLetter letter, std::function<void(bool)> done);

  [[nodiscard]] const std::string& topic() const { return topic_; }
  [[nodiscard]] DeadLetterStats stats() const {
    const std::lock_guard lock(mutex_);
    auto result = stats_;
    result.in_flight = waiting_.size() + refused_.size();
    return result;
  }

 private:
  void Wake() {
    const std::lock_guard lock(client_mutex_);
    if (queue_ != nullptr) rd_kafka_queue_yield(queue_.get());
  }
  void Run();
  void AnswerRefused();
  void Serve(const rd_kafka_event_t& event);
  void Delivered(const rd_kafka_message_t& message);
  void CreateTopic();
  void TopicCreated(const rd_kafka_event_t& event);
  void Renew();
  void Complain(rd_kafka_resp_err_t error, const std::string& text);

  const ClientConfig config_;
  const std::string topic_;
  std::atomic<bool> stop_{false};

  std::mutex client_mutex_;  // the client is replaced after a fatal error
  ClientPtr client_;
  QueuePtr queue_;

  mutable std::mutex mutex_;
  struct Waiting {
    delivery::DeadLetter letter;
    std::function<void(bool)> done;
  };
  std::unordered_map<std::uintptr_t, Waiting> waiting_;
  std::vector<std::function<void(bool)>> refused_;
  std::uintptr_t tags_ = 0;
  DeadLetterStats stats_;

  // The thread's.
  bool created_ = false;
  Time create_at_ = Time::min();
  bool fatal_ = false;
  LogLimit errors_{10s};

  std::thread thread_;
};

void KafkaDeadLetterSink::Impl::Write(delivery::DeadLetter letter, std::function<void(bool)> done) {
  const auto headers = DeadLetterHeaders(letter);
  const auto record = letter.record;
  const bool without_value = letter.without_value;
  std::uintptr_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = ++tags_;
    waiting_.emplace(tag, Waiting{std::move(letter), std::move(done)});
  }
  ProduceRequest request;
  request.topic = topic_.c_str();
  request.key = record->key();
  if (!without_value) request.value = record->value();
  request.headers = &headers;
  request.opaque = reinterpret_cast<void*>(tag);
  ErrorPtr error;
  {
    const std::lock_guard lock(client_mutex_);
    error = Produce(client_.get(), request);
  }
  if (error == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    refused_.push_back(std::move(waiting_.extract(tag).mapped().done));
  }
  Wake();
}

void KafkaDeadLetterSink::Impl::Run() {
  while (!stop_.load(std::memory_order_acquire)) {
    AnswerRefused();
    if (fatal_) Renew();
    if (!created_ && Now() >= create_at_) CreateTopic();
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

void KafkaDeadLetterSink::Impl::AnswerRefused() {
  std::vector<std::function<void(bool)>> refused;
  {
    const std::lock_guard lock(mutex_);
    refused = std::exchange(refused_, {});
    stats_.failed += refused.size();
  }
  for (auto& done : refused) done(false);
}

void KafkaDeadLetterSink::Impl::Serve(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);  // librdkafka's accessors take it so
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
      while (const auto* message = rd_kafka_event_message_next(event)) Delivered(*message);
      return;
    case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
      TopicCreated(*event);
      return;
    case RD_KAFKA_EVENT_ERROR:
      Complain(rd_kafka_event_error(event), rd_kafka_event_error_string(event));
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(event) != 0)
        fatal_ = true;
      return;
    default:
      return;
  }
}

void KafkaDeadLetterSink::Impl::Delivered(const rd_kafka_message_t& message) {
  const bool good = message.err == RD_KAFKA_RESP_ERR_NO_ERROR;
  Waiting waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(reinterpret_cast<std::uintptr_t>(message._private));
    if (found == waiting_.end()) return;
    waiting = std::move(found->second);
    waiting_.erase(found);
    ++(good ? stats_.written : stats_.failed);
  }
  if (!good) Complain(message.err, rd_kafka_message_errstr(&message));
  if (message.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && !waiting.letter.without_value) {
    // The topic will never take it whole, and its message would never be finished.
    waiting.letter.without_value = true;
    Write(std::move(waiting.letter), std::move(waiting.done));
    return;
  }
  waiting.done(good);
}

void KafkaDeadLetterSink::Impl::Complain(rd_kafka_resp_err_t error, const std::string& text) {
  if (const auto silent = errors_.Admit(error, Now()))
    Log(LogLevel::kWarning, "dead letters: producer error",
        {{"topic", topic_}, {"error", rd_kafka_err2name(error)}, {"text", text}, {"not logged", *silent}});
}

void KafkaDeadLetterSink::Impl::CreateTopic() {
  create_at_ = Time::max();  // until the answer
  char text[256];
  // -1 and -1: the brokers' own number of partitions and replicas.
  const NewTopicPtr topic(rd_kafka_NewTopic_new(topic_.c_str(), -1, -1, text, sizeof text));
  rd_kafka_NewTopic_set_config(topic.get(), "max.message.bytes", kMaxMessageBytes);
  auto* raw = topic.get();
  const auto options = NewAdminOptions(client_.get(), RD_KAFKA_ADMIN_OP_CREATETOPICS, kCreateTimeout);
  rd_kafka_CreateTopics(client_.get(), &raw, 1, options.get(), queue_.get());
}

void KafkaDeadLetterSink::Impl::TopicCreated(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);
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
      Log(LogLevel::kInfo, "dead-letter topic created", {{"topic", topic_}});
      created_ = true;
      return;
    case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
      created_ = true;
      return;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
      Log(LogLevel::kWarning, "dead-letter topic may not be created by this worker: create it by hand",
          {{"topic", topic_}, {"error", rd_kafka_err2name(error)}, {"text", text}});
      created_ = true;
      return;
    default:
      Complain(error, "creating the topic: " + text);
      create_at_ = Now() + kCreateRetry;
  }
}

// After a fatal error an idempotent producer takes and sends nothing more.
void KafkaDeadLetterSink::Impl::Renew() {
  std::string error;
  auto fresh = NewClient(config_, Role::kProducer, error);
  if (fresh == nullptr) {
    Complain(RD_KAFKA_RESP_ERR__FATAL, error);
    return;
  }
  Log(LogLevel::kWarning, "dead-letter producer replaced after a fatal error", {{"topic", topic_}});
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
  if (!created_) create_at_ = Time::min();
}

KafkaDeadLetterSink::KafkaDeadLetterSink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KafkaDeadLetterSink::~KafkaDeadLetterSink() = default;

std::unique_ptr<KafkaDeadLetterSink> KafkaDeadLetterSink::Create(const ClientConfig& config, std::string& error) {
  auto client = NewClient(config, Role::kProducer, error);
  if (client == nullptr) return nullptr;
  return std::unique_ptr<KafkaDeadLetterSink>(
      new KafkaDeadLetterSink(std::make_unique<Impl>(config, std::move(client))));
}

void KafkaDeadLetterSink::Write(delivery::DeadLetter letter, std::function<void(bool)> done) {
  impl_->Write(std::move(letter), std::move(done));
}
const std::string& KafkaDeadLetterSink::topic() const { return impl_->topic(); }
DeadLetterStats KafkaDeadLetterSink::stats() const { return impl_->stats(); }

}  // namespace posthorn::kafka
