#pragma once

// Private to this room.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "worker/kafka/group_question.h"
#include "worker/kafka/guard_state.h"

namespace posthorn::kafka {

/// Settles the doubts of a GuardState: asks the coordinator until it knows the member and the group is stable. Where it
/// cannot be asked, heartbeats are given the time to fail.
///
/// Threads  One.
class DoubtCheck {
 public:
  /// Both outlive this. `silent`: a coordinator that answers no questions.
  DoubtCheck(GuardState& guard, GroupQuestion& question, std::chrono::milliseconds heartbeat, bool silent)
      : guard_(guard), question_(question), heartbeat_(heartbeat), silent_(silent) {}

  /// Goes on with the newest doubt. `member_id` (a question to the client) and `lost`, whether the
  /// assignment is lost by now, are asked only while there is a doubt. True when this made Confirmed() true. Blocks up
  /// to 0.2 s.
  [[nodiscard]] bool Serve(const std::function<std::string()>& member_id, const std::function<bool()>& lost);
  void Reset() { check_.reset(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Check {
    std::uint64_t doubt = 0;
    Time ask_at;  // next question; with `quiet_since` set: no more questions
    bool asked = false;
    std::optional<Time> quiet_since;  // the coordinator cannot be asked: heartbeats must have had time to fail
  };
  GuardState& guard_;
  GroupQuestion& question_;
  const std::chrono::milliseconds heartbeat_;
  const bool silent_;
  std::optional<Check> check_;
};

}  // namespace posthorn::kafka
