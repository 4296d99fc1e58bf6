#pragma once

// Private to this room.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/delivery/offset_store.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// A client of the offset store and the queue for the answers to its writes. Shared with a Fetch that still uses it
/// when the store has replaced it.
struct OffsetClient {
  OffsetClient(ClientPtr made, std::function<void()> on_answer);
  ~OffsetClient();
  OffsetClient(const OffsetClient&) = delete;
  OffsetClient& operator=(const OffsetClient&) = delete;

  const std::function<void()> answered;
  ClientPtr client;
  QueuePtr queue;  // declared after the client, gone before it
};
using OffsetClientRef = std::shared_ptr<OffsetClient>;

/// Stored positions as OffsetStore::Fetch promises, all groups asked at once. `client_for` gives a subscription's
/// client; `unanswered` is told the clients that did not answer in time: their requests must not stay with them (see
/// kCoordinatorTimeout).
delivery::OffsetStore::Fetched FetchPositions(const std::string& fleet,
                                              const std::vector<delivery::OffsetStore::Key>& keys,
                                              std::chrono::steady_clock::time_point deadline,
                                              const std::function<OffsetClientRef(const std::string&)>& client_for,
                                              const std::function<void(const OffsetClientRef&)>& unanswered);

/// Writes positions of one subscription; the answer comes to the client's queue with `tag` as its opaque.
struct PositionToWrite {
  delivery::TopicPartition partition;
  delivery::Position position;
};
void SendPositions(OffsetClient& client, const std::string& group, const std::vector<PositionToWrite>& positions,
                   std::uintptr_t tag);

/// What an answer says of each of the positions sent. `error` and `text` describe the last failure, if any.
struct WriteAnswer {
  std::vector<bool> stored;
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  std::string text;
};
WriteAnswer ReadWriteAnswer(rd_kafka_event_t* event, const std::vector<PositionToWrite>& positions);

}  // namespace posthorn::kafka
