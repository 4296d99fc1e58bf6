#include "worker/kafka/dead_letter_producer.h"

#include <utility>

#include "worker/kafka/dead_letter_headers.h"
#include "worker/kafka/fleet_topics.h"

namespace posthorn::kafka {

KafkaDeadLetterSink::KafkaDeadLetterSink(std::shared_ptr<AckedProducer> producer) : producer_(std::move(producer)) {}
KafkaDeadLetterSink::~KafkaDeadLetterSink() = default;

std::unique_ptr<KafkaDeadLetterSink> KafkaDeadLetterSink::Create(const ClientConfig& config, std::string& error) {
  auto producer = MakeFleetProducer(config, {}, error);
  if (producer == nullptr) return nullptr;
  return std::make_unique<KafkaDeadLetterSink>(std::move(producer));
}

namespace {

void WriteTo(AckedProducer& producer, delivery::DeadLetter letter, std::function<void(bool)> done) {
  const auto headers = DeadLetterHeaders(letter);
  AckedProducer::Outgoing record;
  record.topic = kDeadLetterTopic;
  record.key = letter.record->key();
  if (!letter.without_value) record.value = letter.record->value();
  record.headers = &headers;
  // The producer outlives its answers.
  producer.Write(record, [&producer, letter, done = std::move(done)](const AckedProducer::Answer& answer) {
    if (!answer.too_large || letter.without_value) {
      done(answer.offset.has_value());
      return;
    }
    // The topic will never take it whole, and its message would never be finished.
    auto without = letter;
    without.without_value = true;
    WriteTo(producer, std::move(without), done);
  });
}

}  // namespace

void KafkaDeadLetterSink::Write(delivery::DeadLetter letter, std::function<void(bool)> done) {
  WriteTo(*producer_, std::move(letter), std::move(done));
}

const std::string& KafkaDeadLetterSink::topic() const { return producer_->name_of(kDeadLetterTopic); }

DeadLetterStats KafkaDeadLetterSink::stats() const {
  const auto stats = producer_->stats(kDeadLetterTopic);
  return {stats.written, stats.failed, stats.in_flight};
}

}  // namespace posthorn::kafka
