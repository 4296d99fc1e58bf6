#include "worker/kafka/group_question.h"

#include <algorithm>
#include <utility>

#include "worker/kafka/client.h"
#include "worker/kafka/partition_lists.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

constexpr int kReachableTimeout = 200;  // ms
constexpr int kMostFailures = 5;
constexpr std::chrono::milliseconds kPatience{10'000};
constexpr std::chrono::milliseconds kLongestPatience{3'600'000};  // the coordinator may just be away

GroupView ToView(const rd_kafka_ConsumerGroupDescription_t& description) {
  GroupView view;
  view.stable = rd_kafka_ConsumerGroupDescription_state(&description) == RD_KAFKA_CONSUMER_GROUP_STATE_STABLE;
  for (std::size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(&description); ++i) {
    const auto* member = rd_kafka_ConsumerGroupDescription_member(&description, i);
    const char* instance = rd_kafka_MemberDescription_group_instance_id(member);
    const auto* assignment = rd_kafka_MemberDescription_assignment(member);
    view.members.push_back(
        {rd_kafka_MemberDescription_consumer_id(member), instance != nullptr ? instance : "",
         ToPartitions(assignment != nullptr ? rd_kafka_MemberAssignment_partitions(assignment) : nullptr)});
  }
  return view;
}

}  // namespace

GroupQuestion::GroupQuestion(const ClientConfig& config, std::function<void()> answered)
    : config_(config), answered_(std::move(answered)), patience_(kPatience) {}

GroupQuestion::~GroupQuestion() { DropClient(false); }

void GroupQuestion::DropClient(bool abandon) {
  if (client_ == nullptr) return;
  rd_kafka_queue_cb_event_enable(queue_.get(), nullptr, nullptr);
  const bool keep = std::exchange(open_, false) || abandon;
  if (keep) static_cast<void>(queue_.release());
  queue_.reset();
  LetGo(std::move(client_), keep);
}

bool GroupQuestion::Ask() {
  if (open_) return false;
  if (failures_ >= kMostFailures) {
    DropClient(false);
    failures_ = 0;
  }
  if (client_ == nullptr) {
    std::string error;
    client_ = NewClient(config_, Role::kAdmin, error);
    if (client_ == nullptr) {
      runtime::Log(runtime::LogLevel::kError, "no client to ask the coordinator", {{"error", error}});
      return false;
    }
    queue_.reset(rd_kafka_queue_new(client_.get()));
    rd_kafka_queue_cb_event_enable(
        queue_.get(), [](rd_kafka_t*, void* self) { static_cast<GroupQuestion*>(self)->answered_(); }, this);
  }
  if (!Reachable(client_.get(), kReachableTimeout)) return false;
  const auto options = NewAdminOptions(client_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, kCoordinatorTimeout);
  const char* group = config_.fleet().c_str();
  rd_kafka_DescribeConsumerGroups(client_.get(), &group, 1, options.get(), queue_.get());
  open_ = true;
  asked_at_ = std::chrono::steady_clock::now();
  return true;
}

GroupQuestion::Answer GroupQuestion::Take(GroupView& group) {
  const auto failure = [this](rd_kafka_resp_err_t error) {
    ++failures_;
    switch (error) {
      case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
      case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
      case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return Answer::kCannotBeAsked;
      default:
        return Answer::kFailed;
    }
  };
  while (const EventPtr event{queue_ != nullptr ? rd_kafka_queue_poll(queue_.get(), 0) : nullptr}) {
    const auto* result = rd_kafka_event_DescribeConsumerGroups_result(event.get());
    if (result == nullptr) continue;
    open_ = false;
    patience_ = kPatience;
    if (const auto error = rd_kafka_event_error(event.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR)
      return failure(error);
    std::size_t count = 0;
    const auto** groups = rd_kafka_DescribeConsumerGroups_result_groups(result, &count);
    if (count != 1) return Answer::kFailed;
    if (const auto* error = rd_kafka_ConsumerGroupDescription_error(groups[0]); error != nullptr)
      return failure(rd_kafka_error_code(error));
    failures_ = 0;
    group = ToView(*groups[0]);
    return Answer::kGroup;
  }
  if (!open_ || std::chrono::steady_clock::now() - asked_at_ < patience_) return Answer::kNone;
  runtime::Log(runtime::LogLevel::kWarning, "the group's coordinator left a question unanswered, asked again",
               {{"waited", std::to_string(patience_.count()) + "ms"}});
  patience_ = std::min(2 * patience_, kLongestPatience);
  DropClient(false);
  return Answer::kFailed;
}

}  // namespace posthorn::kafka
