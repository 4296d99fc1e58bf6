#pragma once

// Private to this room.

#include <chrono>
#include <functional>
#include <string>

#include "worker/kafka/client_config.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// Asks the group's coordinator whether a member is in the group and the group is stable. Has a client from
/// the first question on; one that leaves a question unanswered for too long, or gets nothing but errors, is replaced
/// (see OffsetClient).
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
  /// Before the end of the process: destroying a client may take as long as its brokers are away.
  void Abandon() { DropClient(true); }
  /// An answer, once; kNone while there is none, kFailed when it is not waited for any more.
  Answer Take(const std::string& member_id);
  /// The same of an instance name: kMember or kUnsettled when somebody in the group has it.
  Answer TakeName(const std::string& instance);

 private:
  void DropClient(bool abandon);
  Answer TakeWhere(const std::function<bool(const rd_kafka_MemberDescription_t&)>& is_meant);
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
