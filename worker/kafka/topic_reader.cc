#include "worker/kafka/topic_reader.h"

#include <map>

#include "worker/kafka/client.h"
#include "worker/kafka/record_copy.h"

namespace posthorn::kafka {

using delivery::Offset;
using delivery::TopicPartition;

bool ReadSections(const ClientConfig& config, const std::vector<Section>& sections, std::chrono::milliseconds patience,
                  const std::function<bool(const TopicPartition&, const delivery::RecordPtr&)>& visit,
                  std::string& error) {
  std::map<TopicPartition, Offset> left;  // -> its end
  const auto list = NewPartitionList(sections.size());
  for (const auto& [partition, first, end] : sections) {
    if (first >= end) continue;
    left[partition] = end;
    rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition)->offset = first;
  }
  if (left.empty()) return true;
  const auto client = NewClient(config, Role::kScan, error);
  if (client == nullptr) return false;
  rd_kafka_poll_set_consumer(client.get());
  if (const auto failure = rd_kafka_assign(client.get(), list.get()); failure != RD_KAFKA_RESP_ERR_NO_ERROR) {
    error = rd_kafka_err2str(failure);
    return false;
  }
  std::string last_error = "nothing came";
  std::vector<delivery::HeaderView> scratch;
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!left.empty()) {
    const MessagePtr message(rd_kafka_consumer_poll(client.get(), 100));
    const auto now = std::chrono::steady_clock::now();
    if (message == nullptr ||
        (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)) {
      if (message != nullptr) last_error = rd_kafka_message_errstr(message.get());
      if (now < deadline) continue;
      error = "reading " + left.begin()->first.topic + ": " + last_error;
      return false;
    }
    deadline = now + patience;
    const auto found = left.find({rd_kafka_topic_name(message->rkt), message->partition});
    if (found == left.end()) continue;
    const TopicPartition partition = found->first;
    const Offset end = found->second;
    // What the last offsets held may be gone, or never was a message (transactions): then the log's end tells.
    const bool at_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    if (at_end || message->offset + 1 >= end) left.erase(found);
    if (!at_end && message->offset < end && !visit(partition, CopyRecord(*message, scratch))) return true;
  }
  return true;
}

}  // namespace posthorn::kafka
