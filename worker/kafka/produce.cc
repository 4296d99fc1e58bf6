#include "worker/kafka/produce.h"

#include <array>

namespace posthorn::kafka {
namespace {

// librdkafka does not write through these; an empty value is not a null one.
void* Data(std::optional<std::string_view> view) {
  static char empty = 0;
  if (!view) return nullptr;
  return view->data() != nullptr ? const_cast<char*>(view->data()) : &empty;
}

}  // namespace

ErrorPtr Produce(rd_kafka_t* client, const ProduceRequest& request) {
  std::array<rd_kafka_vu_t, 8> parts{};
  std::size_t count = 0;
  const auto add = [&](rd_kafka_vtype_t type) -> auto& {
    parts[count].vtype = type;
    return parts[count++].u;
  };
  add(RD_KAFKA_VTYPE_TOPIC).cstr = request.topic;
  add(RD_KAFKA_VTYPE_PARTITION).i32 = request.partition;
  add(RD_KAFKA_VTYPE_MSGFLAGS).i = RD_KAFKA_MSG_F_COPY;
  add(RD_KAFKA_VTYPE_KEY).mem = {Data(request.key), request.key ? request.key->size() : 0};
  add(RD_KAFKA_VTYPE_VALUE).mem = {Data(request.value), request.value ? request.value->size() : 0};
  add(RD_KAFKA_VTYPE_TIMESTAMP).i64 = request.timestamp_ms;
  add(RD_KAFKA_VTYPE_OPAQUE).ptr = request.opaque;
  HeadersPtr headers;
  if (request.headers != nullptr && !request.headers->empty()) {
    headers.reset(rd_kafka_headers_new(request.headers->size()));
    for (const auto& [name, value] : *request.headers)
      rd_kafka_header_add(headers.get(), name.data(), static_cast<ssize_t>(name.size()),
                          value ? Data(std::string_view(*value)) : nullptr,
                          value ? static_cast<ssize_t>(value->size()) : 0);
    add(RD_KAFKA_VTYPE_HEADERS).headers = headers.get();
  }
  ErrorPtr error(rd_kafka_produceva(client, parts.data(), count));
  if (error == nullptr) static_cast<void>(headers.release());  // the client's now
  return error;
}

}  // namespace posthorn::kafka
