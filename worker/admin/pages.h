#pragma once

#include <memory>

#include "worker/admin/admin_server.h"
#include "worker/admin/loop_pings.h"
#include "worker/admin/worker_view.h"

namespace posthorn::admin {

// The pages, each a function of what the worker shows. Which path they stand under is said in admin_pages.cc, what they
// answer in docs/operating.md.
// Threads  One at a time.

/// 200 while every shard's loop turns; 503 with the loops that do not.
[[nodiscard]] Response LivePage(LoopPings& pings, const WorkerView& view);
/// 200 when this worker does, or could do, its part of the fleet's work; otherwise 503. JSON with each condition.
[[nodiscard]] Response ReadyPage(const WorkerView& view);
/// JSON, one object per subscription. `name` chooses one.
[[nodiscard]] Response SubscriptionsPage(const WorkerView& view, const Request& request);
/// The running revision as YAML, secrets masked, and the last refused one with its faults before it, as comments.
/// `format=json`: both as JSON.
[[nodiscard]] Response ConfigPage(const WorkerView& view, const Request& request);
/// JSON: this worker's place in the fleet and its part of each limit.
[[nodiscard]] Response FleetPage(const WorkerView& view);
/// JSON: permits used per window of the wall clock, of a `limit` or a `subscription`, over the last 300 windows.
[[nodiscard]] Response LabelsPage(const WorkerView& view, const Request& request);

}  // namespace posthorn::admin
