#pragma once

// Private to this room.

#include <set>
#include <string>
#include <utility>

#include "worker/kafka/cluster_watch.h"
#include "worker/kafka/handle.h"
#include "worker/kafka/steady.h"

namespace posthorn::kafka {

/// Which topics the member has subscribed to: of those wanted, the ones that have been there.
///
/// A topic that appears must not be librdkafka's own discovery: should it look at its topics while a revocation is
/// being carried out, which may take seconds, a cooperative member (2.0.2, unchanged in 2.8.0) joins the group in the
/// middle of it, and takes no part in any rebalance afterwards. A changed subscription waits for the rebalance's end;
/// but one that is changed while the member has no id, because it joins for the first time or has been away for too
/// long, ends the process with an assertion of librdkafka. And so does a client that is closed and destroyed
/// (until 2.12) while such a change waits: whoever closes asks Settled, and abandons the client when it is not.
///
/// Threads  One.
class TopicSubscription {
 public:
  explicit TopicSubscription(std::string retry_topic) : retry_topic_(std::move(retry_topic)) {}

  void Want(std::set<std::string> topics) { wanted_ = std::move(topics); }
  [[nodiscard]] const std::set<std::string>& wanted() const { return wanted_; }
  /// What the cluster has. Says in the log what is missing; the retry topic often is.
  void Seen(const ClusterWatch::Counts& counts);
  /// The consumer is another one, or out of the group: it has to be told again, not before `at`.
  void Again(Time at);
  [[nodiscard]] Time next() const { return again_at_; }
  /// Tells the consumer when it has to be told. `has_id`: the member has an id.
  [[nodiscard]] rd_kafka_resp_err_t Apply(rd_kafka_t* consumer, bool has_id, Time now);
  /// The consumer has been given an assignment.
  void Assigned(Time now);
  /// The consumer has carried out the change it was told last, as far as that can be known.
  [[nodiscard]] bool Settled(Time now) const { return now >= settled_at_; }

 private:
  [[nodiscard]] std::set<std::string> Topics() const;
  const std::string retry_topic_;
  std::set<std::string> wanted_;
  std::set<std::string> there_;    // ever: one that is deleted stays, for librdkafka to give it up
  std::set<std::string> missing_;  // and told
  bool known_ = false;             // the cluster has answered once
  std::set<std::string> given_;    // the consumer's
  Time again_at_ = Time::max();
  Time settled_at_ = Time::min();
};

}  // namespace posthorn::kafka
