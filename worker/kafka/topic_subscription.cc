#include "worker/kafka/topic_subscription.h"

#include <algorithm>
#include <iterator>

#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

constexpr auto kSubscribeAgain = std::chrono::seconds(1);
// After an assignment: that may be the end of the rebalance which the change waits for.
constexpr auto kCarriedOut = std::chrono::seconds(1);

}  // namespace

void TopicSubscription::Seen(const ClusterWatch::Counts& counts) {
  std::set<std::string> seen;
  for (const auto& [topic, partitions] : counts) seen.insert(topic);
  for (const auto& topic : wanted_) {
    if (topic == retry_topic_) continue;
    if (!seen.contains(topic) && missing_.insert(topic).second) {
      runtime::Log(runtime::LogLevel::kWarning, "topic is not there or not shown to this user, looking for it",
                   {{"topic", topic}});
    } else if (seen.contains(topic) && missing_.erase(topic) != 0) {
      runtime::Log(runtime::LogLevel::kInfo, "topic is there now", {{"topic", topic}});
    }
  }
  there_.merge(seen);
  known_ = true;
}

void TopicSubscription::Assigned(Time now) { settled_at_ = std::min(settled_at_, now + kCarriedOut); }

void TopicSubscription::Again(Time at) {
  given_.clear();
  again_at_ = at;
}

std::set<std::string> TopicSubscription::Topics() const {
  std::set<std::string> topics;
  std::set_intersection(wanted_.begin(), wanted_.end(), there_.begin(), there_.end(),
                        std::inserter(topics, topics.end()));
  if (!topics.empty()) return topics;
  return known_ ? wanted_ : std::set<std::string>();  // a member without partitions rather than none
}

rd_kafka_resp_err_t TopicSubscription::Apply(rd_kafka_t* consumer, bool has_id, Time now) {
  const auto topics = Topics();
  if (again_at_ != Time::max() ? now < again_at_ : topics == given_) return RD_KAFKA_RESP_ERR_NO_ERROR;
  if (!given_.empty() && !topics.empty() && !has_id) return RD_KAFKA_RESP_ERR_NO_ERROR;
  again_at_ = Time::max();
  settled_at_ = topics.empty() ? Time::min() : Time::max();  // leaving needs none to follow
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  if (topics.empty()) {
    if (!given_.empty()) error = rd_kafka_unsubscribe(consumer);
  } else {
    const auto list = NewPartitionList(topics.size());
    for (const auto& topic : topics)
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    error = rd_kafka_subscribe(consumer, list.get());
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    given_ = topics;
  } else {
    again_at_ = now + kSubscribeAgain;
  }
  return error;
}

}  // namespace posthorn::kafka
