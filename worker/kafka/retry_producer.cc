#include "worker/kafka/retry_producer.h"

#include <utility>

#include "worker/kafka/fleet_topics.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {

KafkaRetrySink::KafkaRetrySink(std::shared_ptr<AckedProducer> producer) : producer_(std::move(producer)) {}
KafkaRetrySink::~KafkaRetrySink() = default;

const std::string& KafkaRetrySink::topic() const { return producer_->name_of(kRetryTopic); }

void KafkaRetrySink::Prepare() { producer_->Ensure(kRetryTopic); }

void KafkaRetrySink::Write(std::int32_t partition, delivery::RecordPtr record, const delivery::RetryState& state,
                           std::function<void(std::optional<delivery::Offset>)> done) {
  const auto headers = delivery::EncodeRetryHeaders(state, record->headers());
  AckedProducer::Outgoing outgoing;
  outgoing.topic = kRetryTopic;
  outgoing.partition = partition;
  outgoing.key = record->key();
  outgoing.value = record->value();
  outgoing.headers = &headers;
  producer_->Write(outgoing, [done = std::move(done)](const AckedProducer::Answer& answer) { done(answer.offset); });
}

void KafkaRetrySink::OnIgnored(const delivery::TopicPartition& partition, delivery::Offset offset,
                               delivery::RetryFault fault) {
  ignored_.fetch_add(1, std::memory_order_relaxed);
  std::optional<std::uint64_t> silent;
  {
    const std::lock_guard lock(log_mutex_);
    silent = log_limit_.Admit(static_cast<int>(fault), std::chrono::steady_clock::now());
  }
  if (!silent) return;
  runtime::Log(runtime::LogLevel::kWarning, "a record of the retry topic is passed over",
               {{"topic", partition.topic},
                {"partition", partition.partition},
                {"offset", offset},
                {"why", delivery::ToString(fault)},
                {"not logged", *silent}});
}

}  // namespace posthorn::kafka
