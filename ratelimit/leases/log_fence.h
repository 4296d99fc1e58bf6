#pragma once

#include <optional>

#include "ratelimit/leases/messages.h"
#include "ratelimit/leases/mutation.h"

namespace posthorn::ratelimit {

/// Tells which records of the control log count. Every reader gives it every record in the order of the log.
///
/// The first EPOCH of a number that is higher than all before is in force from there on; of two coordinators that race
/// for a number the first in the log has it. A grant counts when its number is in force. Before the first EPOCH a
/// reader that starts in the middle cannot tell, and nothing counts.
///
/// Start    A reader starts far enough back to find a record of the epoch in force among those older than itself:
///          owners repeat theirs in every window, so a lease's length and four windows are enough.
/// Threads  One at a time.
class LogFence {
 public:
  explicit LogFence(Mutation mutation = Mutation::kNone) : mutation_(mutation) {}

  /// True: in force from here on. False: it was already, or is superseded.
  bool Accept(const Epoch& epoch) {
    if (in_force_ && epoch.number <= *in_force_) return false;
    in_force_ = epoch.number;
    return true;
  }

  [[nodiscard]] bool Accept(const Grant& grant) const {
    if (mutation_ == Mutation::kUnfencedLog) return true;
    return in_force_ && grant.id.epoch == *in_force_;
  }

  /// nullopt: no EPOCH read yet.
  [[nodiscard]] std::optional<std::uint64_t> in_force() const { return in_force_; }

 private:
  friend struct StateBytes;
  Mutation mutation_;
  std::optional<std::uint64_t> in_force_;
};

}  // namespace posthorn::ratelimit
