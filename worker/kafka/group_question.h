#pragma once

// Private to this room.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// The group as its coordinator describes it.
struct GroupView {
  struct Member {
    std::string id;
    std::string instance;  // empty: a dynamic one
    std::vector<delivery::TopicPartition> owned;
  };
  bool stable = false;  // no rebalance under way
  std::vector<Member> members;
};

/// Asks the group's coordinator for its members. Has a client from the first question on; one that leaves a question
/// unanswered for too long, or gets nothing but errors, is replaced (see OffsetClient).
///
/// Threads  One; `answered` comes from any (it only says that Take has something).
class GroupQuestion {
 public:
  enum class Answer { kNone, kGroup, kFailed, kCannotBeAsked };
  GroupQuestion(const ClientConfig& config, std::function<void()> answered);
  ~GroupQuestion();
  GroupQuestion(const GroupQuestion&) = delete;
  GroupQuestion& operator=(const GroupQuestion&) = delete;

  /// Asks, unless an earlier question is still open (its answer is then the answer to that one only) or no broker
  /// answers; true when a question has been sent. Blocks up to 0.2 s.
  bool Ask();
  /// Before the end of the process: destroying a client may take as long as its brokers are away.
  void Abandon() { DropClient(true); }
  /// An answer, once; kNone while there is none, kFailed when it is not waited for any more. With kGroup `group` is
  /// set.
  Answer Take(GroupView& group);

 private:
  void DropClient(bool abandon);
  const ClientConfig config_;
  const std::function<void()> answered_;
  ClientPtr client_;
  QueuePtr queue_;  // declared after the client, gone before it
  bool open_ = false;
  int failures_ = 0;  // one after the other
  std::chrono::steady_clock::time_point asked_at_{};
  std::chrono::milliseconds patience_;
};

}  // namespace posthorn::kafka
