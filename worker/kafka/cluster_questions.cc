#include "worker/kafka/cluster_questions.h"

#include "worker/kafka/client.h"
#include "worker/kafka/log_bounds.h"

namespace posthorn::kafka {
namespace {

using delivery::TopicPartition;
using MetadataPtr = std::unique_ptr<const rd_kafka_metadata_t, Deleter<&rd_kafka_metadata_destroy>>;

}  // namespace

struct ClusterQuestions::Impl {
  std::string fleet;
  int patience = 0;  // ms
  std::string last_error;
  ClientPtr client;
  QueuePtr queue;
  bool open = false;  // a question to a coordinator, see kCoordinatorTimeout

  ~Impl() {
    if (open) static_cast<void>(queue.release());
    queue.reset();
    LetGo(std::move(client), open);
  }
  std::nullopt_t Failed(const std::string& what, const std::string& why) {
    last_error = what + ": " + why;
    return std::nullopt;
  }
  std::nullopt_t Failed(const std::string& what, rd_kafka_resp_err_t error) {
    return Failed(what, rd_kafka_err2str(error));
  }
};

ClusterQuestions::ClusterQuestions(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterQuestions::~ClusterQuestions() = default;

std::unique_ptr<ClusterQuestions> ClusterQuestions::Create(const ClientConfig& config,
                                                           std::chrono::milliseconds patience, std::string& error) {
  auto impl = std::make_unique<Impl>();
  impl->client = NewClient(config, Role::kAdmin, error);
  if (impl->client == nullptr) return nullptr;
  impl->queue.reset(rd_kafka_queue_new(impl->client.get()));
  impl->fleet = config.fleet();
  impl->patience = static_cast<int>(patience.count());
  return std::unique_ptr<ClusterQuestions>(new ClusterQuestions(std::move(impl)));
}

const std::string& ClusterQuestions::last_error() const { return impl_->last_error; }

std::optional<std::int32_t> ClusterQuestions::Partitions(const std::string& topic) {
  const std::string what = "the partitions of " + topic;
  const TopicPtr handle(rd_kafka_topic_new(impl_->client.get(), topic.c_str(), nullptr));
  if (handle == nullptr) return impl_->Failed(what, rd_kafka_last_error());
  const rd_kafka_metadata_t* raw = nullptr;
  const auto error = rd_kafka_metadata(impl_->client.get(), 0, handle.get(), &raw, impl_->patience);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, error);
  const MetadataPtr metadata(raw);
  if (metadata->topic_cnt != 1) return 0;
  const auto& found = metadata->topics[0];
  if (found.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || found.err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC) return 0;
  if (found.err != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, found.err);
  return found.partition_cnt;
}

std::optional<std::pair<delivery::Offset, delivery::Offset>> ClusterQuestions::Bounds(const TopicPartition& partition) {
  rd_kafka_resp_err_t error;
  const std::chrono::milliseconds patience(impl_->patience);
  if (const auto bounds = AskBounds(impl_->client.get(), partition, patience / 2, error)) return bounds;
  return impl_->Failed("the bounds of " + partition.topic + "/" + std::to_string(partition.partition), error);
}

std::optional<std::vector<std::optional<delivery::Offset>>> ClusterQuestions::FirstSince(const std::string& topic,
                                                                                         std::int32_t partitions,
                                                                                         runtime::WallTime time) {
  const std::string what = "offsets of a time in " + topic;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto list = NewPartitionList(static_cast<std::size_t>(partitions));
  for (std::int32_t i = 0; i < partitions; ++i) {
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), i)->offset = ms;
  }
  const auto error = rd_kafka_offsets_for_times(impl_->client.get(), list.get(), impl_->patience);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, error);
  std::vector<std::optional<Offset>> offsets(static_cast<std::size_t>(partitions));
  for (int i = 0; i < list->cnt; ++i) {
    const auto& element = list->elems[i];
    if (element.err != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, element.err);
    if (element.offset >= 0) offsets.at(static_cast<std::size_t>(element.partition)) = element.offset;
  }
  return offsets;
}

std::optional<std::size_t> ClusterQuestions::Members() {
  auto& impl = *impl_;
  const std::string what = "the members of the group " + impl.fleet;
  if (impl.open) return impl.Failed(what, "an earlier question has not been answered");
  if (!Reachable(impl.client.get(), impl.patience)) return impl.Failed(what, "no broker answers");
  const auto options =
      NewAdminOptions(impl.client.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, kCoordinatorTimeout);
  const char* group = impl.fleet.c_str();
  impl.open = true;
  rd_kafka_DescribeConsumerGroups(impl.client.get(), &group, 1, options.get(), impl.queue.get());
  const EventPtr event(rd_kafka_queue_poll(impl.queue.get(), impl.patience));
  if (event == nullptr) return impl.Failed(what, "no answer");
  impl.open = false;
  if (const auto error = rd_kafka_event_error(event.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return impl.Failed(what, error);
  }
  const auto* result = rd_kafka_event_DescribeConsumerGroups_result(event.get());
  std::size_t count = 0;
  const auto** groups = result == nullptr ? nullptr : rd_kafka_DescribeConsumerGroups_result_groups(result, &count);
  if (count != 1) return impl.Failed(what, "not told");
  if (const auto* error = rd_kafka_ConsumerGroupDescription_error(groups[0]); error != nullptr) {
    // Newer brokers tell a group that never was from an empty one.
    if (rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND) return 0;
    return impl.Failed(what, rd_kafka_error_string(error));
  }
  return rd_kafka_ConsumerGroupDescription_member_count(groups[0]);
}

}  // namespace posthorn::kafka
