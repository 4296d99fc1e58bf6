#include "worker/kafka/record_copy.h"

#include <optional>
#include <string_view>

namespace posthorn::kafka {
namespace {

std::string_view View(const void* data, std::size_t size) { return {static_cast<const char*>(data), size}; }

// Header views point into the message.
void CopyHeaders(const rd_kafka_message_t& message, std::vector<delivery::HeaderView>& out) {
  out.clear();
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
    out.push_back({name, value == nullptr ? std::nullopt : std::optional(View(value, size))});
}

}  // namespace

delivery::RecordPtr CopyRecord(const rd_kafka_message_t& message, std::vector<delivery::HeaderView>& scratch) {
  CopyHeaders(message, scratch);
  delivery::Record::Parts parts;
  parts.offset = message.offset;
  rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  parts.timestamp_ms = rd_kafka_message_timestamp(&message, &type);
  if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) parts.timestamp_ms = -1;
  if (message.key != nullptr) parts.key = View(message.key, message.key_len);
  if (message.payload != nullptr) parts.value = View(message.payload, message.len);
  parts.headers = &scratch;
  return delivery::Record::Copy(parts);
}

}  // namespace posthorn::kafka
