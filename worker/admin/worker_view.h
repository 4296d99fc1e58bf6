#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/model.h"
#include "config/sources/config_watch.h"
#include "worker/delivery/dispatcher.h"
#include "worker/delivery/memory_account.h"
#include "worker/fleet/control_node.h"
#include "worker/fleet/limit_book.h"
#include "worker/kafka/dead_letter_producer.h"
#include "worker/kafka/membership.h"
#include "worker/kafka/offset_store.h"
#include "worker/runtime/clock.h"
#include "worker/runtime/loop.h"

namespace posthorn::admin {

/// A worker as its operators see it: everything the pages and the metrics read, and nothing else.
///
/// Threads  Read on the admin thread only; each function may be called while the worker works, and never waits for it.
/// Lifetime What stands behind the functions outlives the admin server.
struct WorkerView {
  std::string instance;
  std::optional<std::uint32_t> slot;
  runtime::Clock* clock = nullptr;
  std::vector<runtime::Loop*> loops;  // one per shard

  std::function<std::vector<delivery::Dispatcher::SubscriptionView>()> subscriptions;
  std::function<config::SnapshotPtr()> snapshot;  // in force; null before the first
  std::function<std::size_t()> owned_partitions;
  std::function<std::vector<fleet::LimitBook::View>()> limits;
  std::function<std::string()> limit_problem;
  std::function<std::optional<fleet::ControlView>()> control;  // nullopt: static shares
  std::function<config::WatchState()> config;
  std::function<kafka::MembershipState()> membership;
  std::function<bool()> membership_confirmed;
  std::function<kafka::OffsetStoreStats()> offsets;
  std::function<kafka::DeadLetterStats()> dead_letters;
  std::function<std::uint64_t()> retry_ignored;  // records of the retry topic that are none of ours
  std::shared_ptr<const delivery::MemoryBudget> memory;
};

}  // namespace posthorn::admin
