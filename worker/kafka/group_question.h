#pragma once

// Private to this room.

#include <functional>
#include <string>

#include "worker/kafka/client_config.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Asks the group's coordinator whether a member is in the group and the group is stable. Has a client from
/// the first question on.
///
/// Threads  One; `answered` comes from any (it only says that Take has something).
class GroupQuestion {
 public:
  enum class Answer { kNone, kMember, kNotMember, kUnsettled, kFailed, kCannotBeAsked };
  GroupQuestion(const ClientConfig& config, std::function<void()> answered);
  ~GroupQuestion();
  GroupQuestion(const GroupQuestion&) = delete;
  GroupQuestion& operator=(const GroupQuestion&) = delete;

  /// Asks, unless an earlier question is still open (its answer is then the answer to that one only) or no broker
  /// answers; true when a question has been sent. Blocks up to 0.2 s.
  bool Ask();
  /// An answer, once; kNone while there is none.
  Answer Take(const std::string& member_id);

 private:
  const ClientConfig config_;
  const std::function<void()> answered_;
  ClientPtr client_;
  QueuePtr queue_;  // declared after the client, gone before it
  bool open_ = false;
};

}  // namespace posthorn::kafka
