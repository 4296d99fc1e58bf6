#pragma once

// Private to this room: ownership of librdkafka's objects. One leaked list can hang rd_kafka_destroy for minutes, so
// nothing of it is ever held bare.

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <memory>
#include <utility>

namespace posthorn::kafka {

template <auto Function>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Function(object);
  }
};

using ConfPtr = std::unique_ptr<rd_kafka_conf_t, Deleter<&rd_kafka_conf_destroy>>;
using ClientPtr = std::unique_ptr<rd_kafka_t, Deleter<&rd_kafka_destroy>>;
using QueuePtr = std::unique_ptr<rd_kafka_queue_t, Deleter<&rd_kafka_queue_destroy>>;
using EventPtr = std::unique_ptr<rd_kafka_event_t, Deleter<&rd_kafka_event_destroy>>;
using MessagePtr = std::unique_ptr<rd_kafka_message_t, Deleter<&rd_kafka_message_destroy>>;
using ErrorPtr = std::unique_ptr<rd_kafka_error_t, Deleter<&rd_kafka_error_destroy>>;
using TopicPtr = std::unique_ptr<rd_kafka_topic_t, Deleter<&rd_kafka_topic_destroy>>;
using HeadersPtr = std::unique_ptr<rd_kafka_headers_t, Deleter<&rd_kafka_headers_destroy>>;
using PartitionListPtr =
    std::unique_ptr<rd_kafka_topic_partition_list_t, Deleter<&rd_kafka_topic_partition_list_destroy>>;
using AdminOptionsPtr = std::unique_ptr<rd_kafka_AdminOptions_t, Deleter<&rd_kafka_AdminOptions_destroy>>;

inline PartitionListPtr NewPartitionList(std::size_t size = 0) {
  return PartitionListPtr(rd_kafka_topic_partition_list_new(static_cast<int>(size)));
}

/// Time limit of admin requests that go to a group's coordinator: the longest librdkafka takes, for two of its faults
/// (2.0.2, unchanged in 2.14). A request whose time runs out while its coordinator is not connected aborts the process
/// when the coordinator is back (rd_kafka_admin_coord_request answers for a request object that is freed already); and
/// destroying a client that has such a request waiting can hang or crash. So the limit must not be reached: whoever
/// asks first makes sure that the cluster answers at all (Reachable), keeps few requests open, waits on a clock of its
/// own, and lets go of a client only when it has no request open (LetGo).
inline constexpr int kCoordinatorTimeout = 3'600'000;  // ms

/// True when a broker answers within the time. Blocks.
inline bool Reachable(rd_kafka_t* client, int timeout_ms) {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(client, 0, nullptr, &metadata, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  rd_kafka_metadata_destroy(metadata);
  return true;
}

inline std::atomic<bool> clients_abandoned{false};  // see abandoned.h

/// Leaves a client that cannot be destroyed to the rest of the process.
inline void Abandon(ClientPtr client) {
  clients_abandoned = true;
  static_cast<void>(client.release());
}

/// Destroys a client, or abandons it when coordinator requests are open.
inline void LetGo(ClientPtr client, bool requests_open) {
  if (requests_open) Abandon(std::move(client));
}

/// Options of one admin request: its time limit, and the number by which its answer is told from the others.
inline AdminOptionsPtr NewAdminOptions(rd_kafka_t* client, rd_kafka_admin_op_t operation, int timeout_ms,
                                       std::uintptr_t tag = 0) {
  AdminOptionsPtr options(rd_kafka_AdminOptions_new(client, operation));
  char text[128];
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, text, sizeof text);
  rd_kafka_AdminOptions_set_opaque(options.get(), reinterpret_cast<void*>(tag));
  return options;
}

}  // namespace posthorn::kafka
