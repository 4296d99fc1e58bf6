#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace posthorn::bench {

struct ClientDeleter {
  void operator()(rd_kafka_t* client) const { rd_kafka_destroy(client); }
};
using ClientPtr = std::unique_ptr<rd_kafka_t, ClientDeleter>;

struct MessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using MessagePtr = std::unique_ptr<rd_kafka_message_t, MessageDeleter>;

inline void Set(rd_kafka_conf_t* conf, const char* name, const std::string& value) {
  char why[512];
  if (rd_kafka_conf_set(conf, name, value.c_str(), why, sizeof(why)) != RD_KAFKA_CONF_OK) throw std::runtime_error(why);
}

/// Takes `conf`.
inline ClientPtr MakeClient(rd_kafka_type_t type, rd_kafka_conf_t* conf) {
  char why[512];
  ClientPtr client(rd_kafka_new(type, conf, why, sizeof(why)));
  if (!client) throw std::runtime_error(why);
  return client;
}

inline std::int32_t PartitionCount(rd_kafka_t* client, const std::string& topic) {
  constexpr int kTimeoutMs = 10'000;
  const std::unique_ptr<rd_kafka_topic_t, void (*)(rd_kafka_topic_t*)> handle(
      rd_kafka_topic_new(client, topic.c_str(), nullptr), rd_kafka_topic_destroy);
  const rd_kafka_metadata_t* metadata = nullptr;
  const auto error = rd_kafka_metadata(client, 0, handle.get(), &metadata, kTimeoutMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(error));
  const std::int32_t count = metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
  rd_kafka_metadata_destroy(metadata);
  if (count == 0) throw std::runtime_error("no such topic: " + topic);
  return count;
}

}  // namespace posthorn::bench
