#pragma once

// Private to this room.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// One record for rd_kafka_produceva; everything is copied.
struct ProduceRequest {
  const char* topic = nullptr;
  std::int32_t partition = RD_KAFKA_PARTITION_UA;
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
  const std::vector<std::pair<std::string, std::optional<std::string>>>* headers = nullptr;
  std::int64_t timestamp_ms = 0;  // 0: now
  void* opaque = nullptr;
};

/// Never blocks. Null: queued, its delivery report will come.
ErrorPtr Produce(rd_kafka_t* client, const ProduceRequest& request);

}  // namespace posthorn::kafka
