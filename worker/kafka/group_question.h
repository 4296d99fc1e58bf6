#pragma once

// Private to this room.

#include <functional>
#include <string>

#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Asks the group's coordinator whether a member is in the group and the group is stable.
///
/// Threads  One; `answered` from any (it only says that Take has something).
class GroupQuestion {
 public:
  enum class Answer { kNone, kMember, kNotMember, kUnsettled, kFailed, kCannotBeAsked };
  GroupQuestion(rd_kafka_t* client, std::string group, std::function<void()> answered);
  ~GroupQuestion();
  GroupQuestion(const GroupQuestion&) = delete;
  GroupQuestion& operator=(const GroupQuestion&) = delete;

  /// Any answer to an earlier question is forgotten.
  void Ask(int timeout_ms);
  /// The answer to the last question, once; kNone while there is none.
  Answer Take(const std::string& member_id);

 private:
  rd_kafka_t* const client_;
  const std::string group_;
  const std::function<void()> answered_;
  QueuePtr queue_;
  std::uintptr_t asked_ = 0;
};

}  // namespace posthorn::kafka
