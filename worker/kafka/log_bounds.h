#pragma once

// Private to this room.

#include <chrono>
#include <optional>
#include <utility>

#include "worker/delivery/record.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Where a partition's log begins and ends, as its leader says. Blocks, at most for `timeout` each. Unset: `error` says
/// why. What is made for this, rd_kafka_query_watermark_offsets, waits for as long as the leader is away, whatever the
/// time it is given (librdkafka before 2.3).
[[nodiscard]] std::optional<delivery::Offset> AskLogStart(rd_kafka_t* client, const delivery::TopicPartition& partition,
                                                          std::chrono::milliseconds timeout,
                                                          rd_kafka_resp_err_t& error);
[[nodiscard]] std::optional<delivery::Offset> AskLogEnd(rd_kafka_t* client, const delivery::TopicPartition& partition,
                                                        std::chrono::milliseconds timeout, rd_kafka_resp_err_t& error);
/// Makes librdkafka fetch from the partition at once, which may be asleep beside an empty queue for up to a second;
/// what the leader answers is of no interest.
void WakeFetcher(rd_kafka_t* client, const delivery::TopicPartition& partition);
/// {start, end}
[[nodiscard]] std::optional<std::pair<delivery::Offset, delivery::Offset>> AskBounds(
    rd_kafka_t* client, const delivery::TopicPartition& partition, std::chrono::milliseconds timeout,
    rd_kafka_resp_err_t& error);

}  // namespace posthorn::kafka
