#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "worker/runtime/clock.h"
#include "worker/runtime/loop.h"

namespace posthorn::admin {

/// Do the loops turn? Each is sent a ping, the next one when the last was answered; a loop that leaves one unanswered
/// for kPatience stands still.
///
/// Time     When the asking thread itself has not come by for kStandstill (the process was stopped, the machine slept),
///          the loops get their time anew: they were not running either.
/// Threads  One at a time; the loops answer from their own threads.
class LoopPings {
 public:
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kStandstill{3};

  explicit LoopPings(std::vector<runtime::Loop*> loops);

  /// At least once a second.
  void Ping(runtime::SteadyTime now);
  struct Stopped {
    std::size_t loop;
    runtime::Nanoseconds silent;
  };
  [[nodiscard]] std::vector<Stopped> StoppedLoops(runtime::SteadyTime now) const;

 private:
  struct Answer;
  struct Asked {
    runtime::Loop* loop;
    std::shared_ptr<Answer> answer;
    std::optional<runtime::SteadyTime> since;  // of the ping that is on its way
  };
  std::vector<Asked> asked_;
  std::optional<runtime::SteadyTime> last_;
};

}  // namespace posthorn::admin
