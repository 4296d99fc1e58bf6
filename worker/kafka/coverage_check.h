#pragma once

// Private to this room.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "worker/kafka/group_question.h"

namespace posthorn::kafka {

/// Finds partitions that nobody has although the group is at rest. A static member that ends after it has given up what
/// a rebalance takes from it, and before it has joined again for the others to get it, leaves the group like that: back
/// under its name it gets what it had left, and for the coordinator nothing has changed.
///
/// Threads  One. Cost: a question once a minute, and two when the group has changed.
class CoverageCheck {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Counts = std::vector<std::pair<std::string, std::int32_t>>;
  explicit CoverageCheck(GroupQuestion& question) : question_(question) {}

  /// Something has changed in the group: what was seen before says nothing.
  void Changed(Time now);
  /// How many partitions nobody has, when this member is to join anew for their sake; else 0. The others wait for
  /// longer, should it not. Blocks up to 0.2 s. Not while somebody else uses the question.
  [[nodiscard]] std::size_t Serve(Time now, const Counts& counts, const std::function<std::string()>& member_id);

 private:
  GroupQuestion& question_;
  Time ask_at_ = Time::max();
  bool asked_ = false;
  int seen_ = 0;  // answers in a row with partitions that nobody has
};

}  // namespace posthorn::kafka
