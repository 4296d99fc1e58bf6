#pragma once

// Private to this room.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "worker/kafka/client_config.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Asks the group's coordinator whether a member is in the group and the group is stable. Has a client while it asks.
///
/// Threads  One; `answered` comes from any (it only says that Take has something).
class GroupQuestion {
 public:
  enum class Answer { kNone, kMember, kNotMember, kUnsettled, kFailed, kCannotBeAsked };
  GroupQuestion(const ClientConfig& config, std::function<void()> answered);
  ~GroupQuestion();
  GroupQuestion(const GroupQuestion&) = delete;
  GroupQuestion& operator=(const GroupQuestion&) = delete;

  /// Any answer to an earlier question is forgotten.
  void Ask();
  /// The answer to the last question, once; kNone while there is none, kFailed after 5 s without one.
  Answer Take(const std::string& member_id);
  /// No more questions for now.
  void Rest();

 private:
  const ClientConfig config_;
  const std::function<void()> answered_;
  ClientPtr client_;
  QueuePtr queue_;  // declared after the client, gone before it
  std::chrono::steady_clock::time_point asked_at_{};
  std::uintptr_t asked_ = 0;
};

}  // namespace posthorn::kafka
