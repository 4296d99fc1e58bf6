#include "worker/kafka/retention.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 250ms;
constexpr int kDescribeTimeout = 5000;  // ms

using ResourcePtr = std::unique_ptr<rd_kafka_ConfigResource_t, Deleter<&rd_kafka_ConfigResource_destroy>>;

}  // namespace

bool RetentionQuestion::Ask() {
  const auto broker = rd_kafka_controllerid(client_.get(), 0);  // any broker has the figure; this one's id is at hand
  if (broker < 0) return false;
  const ResourcePtr resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, std::to_string(broker).c_str()));
  auto* raw = resource.get();
  const auto options = NewAdminOptions(client_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, kDescribeTimeout);
  rd_kafka_DescribeConfigs(client_.get(), &raw, 1, options.get(), queue_.get());
  return true;
}

bool RetentionQuestion::Step(Time now) {
  if (now < next_) return false;
  next_ = now + kPause;
  if (!asked_) {
    asked_ = Ask();
    return false;
  }
  const EventPtr event(rd_kafka_queue_poll(queue_.get(), 0));
  if (event == nullptr) return false;
  asked_ = false;
  const auto refused = [](const char* why) {
    runtime::Log(runtime::LogLevel::kInfo, "offsets.retention.minutes cannot be read, 7 days assumed",
                 {{"reason", why}});
    return true;
  };
  switch (const auto error = rd_kafka_event_error(event.get())) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      break;
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return refused(rd_kafka_err2name(error));
    default:
      return false;
  }
  const auto* result = rd_kafka_event_DescribeConfigs_result(event.get());
  if (result == nullptr) return false;
  std::size_t count = 0;
  const auto** resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (count != 1) return false;
  if (const auto error = rd_kafka_ConfigResource_error(resources[0]); error != RD_KAFKA_RESP_ERR_NO_ERROR)
    return refused(rd_kafka_err2name(error));
  const auto** entries = rd_kafka_ConfigResource_configs(resources[0], &count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::string_view(rd_kafka_ConfigEntry_name(entries[i])) != "offsets.retention.minutes") continue;
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    const long minutes = value != nullptr ? std::strtol(value, nullptr, 10) : 0;
    if (minutes < 1) break;
    found_ = std::chrono::minutes(minutes);
    return true;
  }
  return refused("not told");
}

}  // namespace posthorn::kafka
