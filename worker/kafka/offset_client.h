#pragma once

// Private to this room.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "worker/delivery/offset_store.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// A client of the offset store, the queue for the answers to its writes, and the one for its fetches.
///
/// librdkafka can lose a request to a coordinator: its answer never comes, and its time limit must not be reached
/// (kCoordinatorTimeout). And it can go on asking a broker that is the coordinator no more (a process that stood still
/// while the coordinator moved does). A client that leaves a request unanswered for `patience`, or is astray for
/// kAstray, is replaced by one that brokers answer.
struct OffsetClient {
  using Time = std::chrono::steady_clock::time_point;
  OffsetClient(ClientPtr made, std::chrono::milliseconds silence_allowed, std::function<void()> on_answer);
  ~OffsetClient();
  OffsetClient(const OffsetClient&) = delete;
  OffsetClient& operator=(const OffsetClient&) = delete;

  const std::chrono::milliseconds patience;
  const std::function<void()> answered;  // or what follows says more
  ClientPtr client;
  QueuePtr writes;
  std::size_t open_writes = 0;  // the store thread's
  std::mutex fetching;          // one Fetch at a time; guards what follows
  QueuePtr fetches;
  std::size_t open_fetches = 0;  // also those nobody waits for any more
  std::uintptr_t fetch_tags = 0;
  Time fetching_since{};                        // the oldest of the open ones
  std::atomic<bool> silent{false};              // fetches stay unanswered
  std::atomic<Time> astray_since{Time::max()};  // asks the wrong broker and no other

  /// Notes what an answer says of the client's idea of the coordinator.
  void Heard(rd_kafka_resp_err_t error);
  /// When it is to be replaced, as far as is known now; `open_write`: when its oldest open write was sent.
  [[nodiscard]] Time ReplaceAt(std::optional<Time> open_write) const;
};
using OffsetClientRef = std::shared_ptr<OffsetClient>;

/// Stored positions as OffsetStore::Fetch promises, all groups asked at once. `client_for` gives a subscription's
/// client. While requests of an earlier call are unanswered no more are sent to their client (see kCoordinatorTimeout).
delivery::OffsetStore::Fetched FetchPositions(const std::string& fleet,
                                              const std::vector<delivery::OffsetStore::Key>& keys,
                                              std::chrono::steady_clock::time_point deadline,
                                              const std::function<OffsetClientRef(const std::string&)>& client_for);

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
