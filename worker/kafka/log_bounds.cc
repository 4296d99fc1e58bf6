#include "worker/kafka/log_bounds.h"

namespace posthorn::kafka {
namespace {

using delivery::Offset;
using delivery::TopicPartition;

// Kafka takes these two as times: that of the first message, and that behind the last.
std::optional<Offset> Ask(rd_kafka_t* client, const TopicPartition& partition, std::int64_t time,
                          std::chrono::milliseconds timeout, rd_kafka_resp_err_t& error) {
  const auto list = NewPartitionList(1);
  auto* element = rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition);
  element->offset = time;
  error = rd_kafka_offsets_for_times(client, list.get(), static_cast<int>(timeout.count()));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = element->err;
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR && element->offset < 0) error = RD_KAFKA_RESP_ERR__BAD_MSG;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
  return element->offset;
}

}  // namespace

std::optional<Offset> AskLogStart(rd_kafka_t* client, const TopicPartition& partition,
                                  std::chrono::milliseconds timeout, rd_kafka_resp_err_t& error) {
  return Ask(client, partition, RD_KAFKA_OFFSET_BEGINNING, timeout, error);
}

std::optional<Offset> AskLogEnd(rd_kafka_t* client, const TopicPartition& partition, std::chrono::milliseconds timeout,
                                rd_kafka_resp_err_t& error) {
  return Ask(client, partition, RD_KAFKA_OFFSET_END, timeout, error);
}

void WakeFetcher(rd_kafka_t* client, const TopicPartition& partition) {
  rd_kafka_resp_err_t ignored;
  static_cast<void>(AskLogEnd(client, partition, std::chrono::milliseconds(100), ignored));
}

std::optional<std::pair<Offset, Offset>> AskBounds(rd_kafka_t* client, const TopicPartition& partition,
                                                   std::chrono::milliseconds timeout, rd_kafka_resp_err_t& error) {
  const auto start = AskLogStart(client, partition, timeout, error);
  if (!start) return std::nullopt;
  const auto end = AskLogEnd(client, partition, timeout, error);
  if (!end) return std::nullopt;
  return std::pair(*start, *end);
}

}  // namespace posthorn::kafka
