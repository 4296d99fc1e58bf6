#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/delivery/dispatcher.h"
#include "worker/runtime/clock.h"

namespace posthorn::fleet {

/// What this worker could start under one limit.
struct Demand {
  std::int64_t next_window = 0;  // attempts in the next window
  std::int64_t now = 0;          // of these at this moment, if there were permits
  bool operator==(const Demand&) const = default;
};

/// The demand of each limit that a subscription names: what is ready and what lies unread in its partitions, and as
/// many again as were started lately (new messages and retries that will come due). Never more than the endpoint takes:
/// a subscription that was slowed down asks for its ceiling, one whose endpoint fails throughout for the next probe,
/// one that was told to wait or is paused for nothing; one with all its requests under way, or that delivers one after
/// the other (`ordering: partition`) and has them all under way or in backoff, for what it gets done.
///
/// Threads  A function of its arguments; those of the counters may be a moment old.
[[nodiscard]] std::map<std::string, Demand> DemandOf(
    const std::vector<delivery::Dispatcher::SubscriptionView>& subscriptions, const runtime::Now& now);

}  // namespace posthorn::fleet
