#pragma once

#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// The partitions of librdkafka's list, and the reverse, without offsets. Null is empty.
inline std::vector<delivery::TopicPartition> ToPartitions(const rd_kafka_topic_partition_list_t* list) {
  std::vector<delivery::TopicPartition> result;
  if (list == nullptr) return result;
  for (int i = 0; i < list->cnt; ++i) result.push_back({list->elems[i].topic, list->elems[i].partition});
  return result;
}

inline PartitionListPtr ToList(const std::vector<delivery::TopicPartition>& partitions) {
  auto list = NewPartitionList(partitions.size());
  for (const auto& p : partitions) rd_kafka_topic_partition_list_add(list.get(), p.topic.c_str(), p.partition);
  return list;
}

}  // namespace posthorn::kafka
