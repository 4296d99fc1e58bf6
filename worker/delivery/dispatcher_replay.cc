// A subscription goes back on one partition while everything else goes on.
#include <algorithm>

#include "worker/delivery/dispatcher.h"
#include "worker/delivery/replay.h"

namespace posthorn::delivery {
namespace {

constexpr auto kBoundsTimeout = std::chrono::milliseconds(2000);

}  // namespace

std::optional<ReplayOutcome> Dispatcher::Replay(const ReplayRequest& request, const TopicPartition& partition) {
  const std::lock_guard structure(structure_);
  const OffsetStore::Key key{request.subscription, partition};
  const auto refused = [](const char* why) {
    ReplayOutcome outcome;
    outcome.refused = why;
    return outcome;
  };
  {
    const std::lock_guard lock(state_);
    if (!snapshot_ || owned_.count(partition) == 0) return std::nullopt;
    const auto found = subscriptions_.find(request.subscription);
    if (found == subscriptions_.end() || found->second.config->topic != partition.topic) {
      return refused("the worker's configuration has no such subscription of this topic");
    }
    const auto lane = found->second.lanes.find(partition);
    if (lane == found->second.lanes.end()) return std::nullopt;  // about to be opened
    if (request.to && *request.to <= request.from) return refused("the end lies before the beginning");
    const auto next = lane->second->next.load(std::memory_order_relaxed);
    if (request.from >= next) return ReplayOutcome{next, next, 0, {}};
  }
  const auto bounds = parts_.offsets->Bounds(partition, kBoundsTimeout);
  if (!bounds) return std::nullopt;

  CloseAndFlush(
      [&](const Lane& lane) {
        return lane.topic_partition() == partition && lane.subscription().shared->name == request.subscription;
      },
      /*lost=*/false, std::chrono::milliseconds(drain_limit_.load()));
  {
    const std::lock_guard lock(state_);
    const auto found = subscriptions_.find(request.subscription);
    if (found != subscriptions_.end()) found->second.lanes.erase(partition);
  }
  auto starts = StartPositions({key});
  if (!starts) {
    // Goes on where it was as soon as Kafka answers; the request is still there then.
    WantReconcile();
    return std::nullopt;
  }
  auto& start = starts->front();
  ReplayOutcome outcome;
  outcome.before = start.next;
  auto rewound = RewindTo(start.next, start.known, std::max(request.from, bounds->first), request.to);
  if (rewound.next != start.next) {
    start.next = rewound.next;
    start.known = std::move(rewound.known);
    start.metadata = EncodeCommitState(start.next, start.known);
    start.stored = false;
  }
  outcome.after = start.next;
  outcome.again = rewound.again;
  const std::lock_guard lock(state_);
  if (const auto owned = owned_.find(partition); owned != owned_.end()) OpenLane(start, owned->second);
  return outcome;
}

}  // namespace posthorn::delivery
