#include "worker/kafka/producer.h"

#include <utility>

#include "worker/kafka/client.h"
#include "worker/kafka/produce.h"

namespace posthorn::kafka {
namespace {

constexpr auto kFullFor = std::chrono::seconds(30);

}  // namespace

struct Producer::Impl {
  ClientPtr client;
  QueuePtr queue;
  std::uint64_t sent = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t failed = 0;
  std::string last_error;

  bool ServeOne(int timeout_ms) {
    const EventPtr event(rd_kafka_queue_poll(queue.get(), timeout_ms));
    if (event == nullptr) return false;
    if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_ERROR) last_error = rd_kafka_event_error_string(event.get());
    while (const auto* message = rd_kafka_event_message_next(event.get())) {
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        ++acknowledged;
      } else {
        ++failed;
        last_error = rd_kafka_message_errstr(message);
      }
    }
    return true;
  }
};

Producer::Producer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Producer::~Producer() = default;

std::unique_ptr<Producer> Producer::Create(const ClientConfig& config, std::string& error) {
  auto impl = std::make_unique<Impl>();
  impl->client = NewClient(config, Role::kProducer, error);
  if (impl->client == nullptr) return nullptr;
  impl->queue.reset(rd_kafka_queue_get_main(impl->client.get()));
  return std::unique_ptr<Producer>(new Producer(std::move(impl)));
}

bool Producer::Send(const OutgoingRecord& record) {
  const std::string topic(record.topic);
  ProduceRequest request;
  request.topic = topic.c_str();
  request.partition = record.partition;
  request.key = record.key;
  request.value = record.value;
  request.headers = &record.headers;
  request.timestamp_ms = record.timestamp_ms;
  const auto deadline = std::chrono::steady_clock::now() + kFullFor;
  while (true) {
    const auto error = Produce(impl_->client.get(), request);
    if (error == nullptr) {
      ++impl_->sent;
      while (impl_->ServeOne(0)) {
      }
      return true;
    }
    impl_->last_error = rd_kafka_error_string(error.get());
    if (rd_kafka_error_code(error.get()) != RD_KAFKA_RESP_ERR__QUEUE_FULL ||
        std::chrono::steady_clock::now() > deadline)
      return false;
    impl_->ServeOne(100);
  }
}

bool Producer::Flush(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (impl_->acknowledged + impl_->failed < impl_->sent && std::chrono::steady_clock::now() < deadline)
    impl_->ServeOne(100);
  return impl_->acknowledged == impl_->sent;
}

std::uint64_t Producer::acknowledged() const { return impl_->acknowledged; }
std::uint64_t Producer::failed() const { return impl_->failed; }
const std::string& Producer::last_error() const { return impl_->last_error; }

}  // namespace posthorn::kafka
