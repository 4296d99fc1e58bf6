#include "worker/kafka/group_question.h"

#include <utility>

namespace posthorn::kafka {

GroupQuestion::GroupQuestion(rd_kafka_t* client, std::string group, std::function<void()> answered)
    : client_(client), group_(std::move(group)), answered_(std::move(answered)), queue_(rd_kafka_queue_new(client_)) {
  rd_kafka_queue_cb_event_enable(
      queue_.get(), [](rd_kafka_t*, void* self) { static_cast<GroupQuestion*>(self)->answered_(); }, this);
}

GroupQuestion::~GroupQuestion() { rd_kafka_queue_cb_event_enable(queue_.get(), nullptr, nullptr); }

void GroupQuestion::Ask(int timeout_ms) {
  const auto options = NewAdminOptions(client_, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, timeout_ms, ++asked_);
  const char* group = group_.c_str();
  rd_kafka_DescribeConsumerGroups(client_, &group, 1, options.get(), queue_.get());
}

GroupQuestion::Answer GroupQuestion::Take(const std::string& member_id) {
  const auto failure = [](rd_kafka_resp_err_t error) {
    switch (error) {
      case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
      case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
      case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return Answer::kCannotBeAsked;
      default:
        return Answer::kFailed;
    }
  };
  while (const EventPtr event{rd_kafka_queue_poll(queue_.get(), 0)}) {
    const auto* result = rd_kafka_event_DescribeConsumerGroups_result(event.get());
    if (result == nullptr || reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event.get())) != asked_) continue;
    if (const auto error = rd_kafka_event_error(event.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR)
      return failure(error);
    std::size_t count = 0;
    const auto** groups = rd_kafka_DescribeConsumerGroups_result_groups(result, &count);
    if (count != 1) return Answer::kFailed;
    if (const auto* error = rd_kafka_ConsumerGroupDescription_error(groups[0]); error != nullptr)
      return failure(rd_kafka_error_code(error));
    bool member = false;
    for (std::size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(groups[0]); ++i)
      member = member || member_id == rd_kafka_MemberDescription_consumer_id(
                                          rd_kafka_ConsumerGroupDescription_member(groups[0], i));
    if (!member) return Answer::kNotMember;
    return rd_kafka_ConsumerGroupDescription_state(groups[0]) == RD_KAFKA_CONSUMER_GROUP_STATE_STABLE
               ? Answer::kMember
               : Answer::kUnsettled;
  }
  return Answer::kNone;
}

}  // namespace posthorn::kafka
