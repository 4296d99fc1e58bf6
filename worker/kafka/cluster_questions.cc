#include "worker/kafka/cluster_questions.h"

#include <algorithm>
#include <thread>

#include "worker/kafka/client.h"
#include "worker/kafka/log_bounds.h"

namespace posthorn::kafka {
namespace {

using delivery::TopicPartition;
using MetadataPtr = std::unique_ptr<const rd_kafka_metadata_t, Deleter<&rd_kafka_metadata_destroy>>;
using TopicResourcePtr = std::unique_ptr<rd_kafka_ConfigResource_t, Deleter<&rd_kafka_ConfigResource_destroy>>;

constexpr std::chrono::milliseconds kShortestQuestion{50};
constexpr std::chrono::milliseconds kLookAtLeaders{50};

bool IsElection(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
         error == RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH || error == RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH;
}

}  // namespace

struct ClusterQuestions::Impl {
  std::string fleet;
  int patience = 0;  // ms
  std::string last_error;
  bool denied = false;
  ClientPtr client;
  QueuePtr queue;
  bool open = false;  // a question to a coordinator, see kCoordinatorTimeout

  ~Impl() {
    if (open) static_cast<void>(queue.release());
    queue.reset();
    LetGo(std::move(client), open);
  }
  /// Whether the topic's partitions could be asked for.
  rd_kafka_resp_err_t Describe(const std::string& topic, MetadataPtr& metadata, std::chrono::milliseconds time) {
    const TopicPtr handle(rd_kafka_topic_new(client.get(), topic.c_str(), nullptr));
    if (handle == nullptr) return rd_kafka_last_error();
    const rd_kafka_metadata_t* raw = nullptr;
    const auto error = rd_kafka_metadata(client.get(), 0, handle.get(), &raw, static_cast<int>(time.count()));
    metadata.reset(raw);
    return error;
  }
  /// `ask(time)` what only the partitions' leaders know: again while they are being elected.
  template <typename Ask>
  rd_kafka_resp_err_t OfLeaders(const std::string& topic, Ask ask) {
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::milliseconds all(patience);
    while (true) {
      const auto gone = std::chrono::steady_clock::now() - begin;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(all - gone);
      const auto error = ask(std::max(left, kShortestQuestion));
      if (!IsElection(error) || left <= kLookAtLeaders) return error;
      std::this_thread::sleep_for(kLookAtLeaders);  // brokers tell nobody
      MetadataPtr metadata;                         // librdkafka takes over who leads
      static_cast<void>(Describe(topic, metadata, left));
    }
  }
  std::nullopt_t Failed(const std::string& what, const std::string& why) {
    last_error = what + ": " + why;
    denied = false;
    return std::nullopt;
  }
  /// A question that is not answered does not tell why: errors come on a queue of their own. Unset: no login failed.
  std::optional<std::string> TakeLoginFailure() {
    std::optional<std::string> failure;
    const QueuePtr errors(rd_kafka_queue_get_main(client.get()));
    while (const EventPtr event{rd_kafka_queue_poll(errors.get(), 0)}) {
      if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR__AUTHENTICATION) continue;
      failure = rd_kafka_event_error_string(event.get());
      // The same words each time: without the broker before them, and how long it took after them.
      failure->erase(0, std::min(failure->find("SASL "), failure->size()));
      failure->resize(std::min(failure->find(" (after "), failure->size()));
      if (failure->empty()) failure = rd_kafka_err2str(RD_KAFKA_RESP_ERR__AUTHENTICATION);
    }
    return failure;
  }
  std::nullopt_t Failed(const std::string& what, rd_kafka_resp_err_t error) {
    const auto login = TakeLoginFailure();
    static_cast<void>(Failed(what, login ? *login : rd_kafka_err2str(error)));
    denied = login || error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
             error == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
             error == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED || error == RD_KAFKA_RESP_ERR__AUTHENTICATION;
    return std::nullopt;
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
bool ClusterQuestions::denied() const { return impl_->denied; }

std::optional<std::int32_t> ClusterQuestions::Partitions(const std::string& topic) {
  const std::string what = "the partitions of " + topic;
  MetadataPtr metadata;
  const auto error = impl_->OfLeaders(topic, [&](std::chrono::milliseconds patience) {
    const auto failure = impl_->Describe(topic, metadata, patience);
    const bool told = failure == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1;
    return told && IsElection(metadata->topics[0].err) ? metadata->topics[0].err : failure;
  });
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, error);
  static_cast<void>(impl_->TakeLoginFailure());  // it is over
  if (metadata->topic_cnt != 1) return 0;
  const auto& found = metadata->topics[0];
  if (found.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || found.err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC) return 0;
  if (found.err != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, found.err);
  return found.partition_cnt;
}

std::optional<std::pair<delivery::Offset, delivery::Offset>> ClusterQuestions::Bounds(const TopicPartition& partition) {
  std::optional<std::pair<Offset, Offset>> bounds;
  const auto error = impl_->OfLeaders(partition.topic, [&](std::chrono::milliseconds patience) {
    rd_kafka_resp_err_t failure;
    bounds = AskBounds(impl_->client.get(), partition, patience / 2, failure);
    return bounds ? RD_KAFKA_RESP_ERR_NO_ERROR : failure;
  });
  if (bounds) return bounds;
  return impl_->Failed("the bounds of " + partition.topic + "/" + std::to_string(partition.partition), error);
}

std::optional<std::vector<std::optional<delivery::Offset>>> ClusterQuestions::FirstSince(const std::string& topic,
                                                                                         std::int32_t partitions,
                                                                                         runtime::WallTime time) {
  const std::string what = "offsets of a time in " + topic;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time.time_since_epoch()).count();
  std::vector<std::optional<Offset>> offsets(static_cast<std::size_t>(partitions));
  const auto error = impl_->OfLeaders(topic, [&](std::chrono::milliseconds patience) {
    const auto list = NewPartitionList(offsets.size());
    for (std::int32_t i = 0; i < partitions; ++i) {
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), i)->offset = ms;
    }
    auto failure = rd_kafka_offsets_for_times(impl_->client.get(), list.get(), static_cast<int>(patience.count()));
    for (int i = 0; i < list->cnt && failure == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
      const auto& element = list->elems[i];
      failure = element.err;
      if (element.offset >= 0) offsets.at(static_cast<std::size_t>(element.partition)) = element.offset;
    }
    return failure;
  });
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return impl_->Failed(what, error);
  return offsets;
}

std::optional<std::string> ClusterQuestions::TopicSetting(const std::string& topic, const std::string& key) {
  auto& impl = *impl_;
  const std::string what = "the setting " + key + " of " + topic;
  const TopicResourcePtr resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str()));
  auto* raw = resource.get();
  const auto options = NewAdminOptions(impl.client.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, impl.patience);
  // A queue of its own: an answer that comes too late belongs to nobody.
  const QueuePtr queue(rd_kafka_queue_new(impl.client.get()));
  rd_kafka_DescribeConfigs(impl.client.get(), &raw, 1, options.get(), queue.get());
  const EventPtr event(rd_kafka_queue_poll(queue.get(), impl.patience + 500));  // it ends by itself
  if (event == nullptr) return impl.Failed(what, "no answer");
  if (const auto error = rd_kafka_event_error(event.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return impl.Failed(what, error);
  }
  std::size_t count = 0;
  const auto* result = rd_kafka_event_DescribeConfigs_result(event.get());
  const auto** resources = result == nullptr ? nullptr : rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (count != 1) return impl.Failed(what, "not told");
  if (const auto error = rd_kafka_ConfigResource_error(resources[0]); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return impl.Failed(what, error);
  }
  const auto** entries = rd_kafka_ConfigResource_configs(resources[0], &count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    if (value != nullptr && rd_kafka_ConfigEntry_name(entries[i]) == key) return std::string(value);
  }
  return impl.Failed(what, "not told");
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
