#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ratelimit/limiter.h"
#include "tests/support/manual_loop.h"
#include "worker/admin/worker_view.h"

namespace posthorn::test {

/// A worker that is nothing but what its pages read. Everything may be changed between two requests.
struct ShownWorker {
  ManualWorld world;
  std::vector<delivery::Dispatcher::SubscriptionView> subscriptions;
  std::vector<fleet::LimitBook::View> limits;
  std::shared_ptr<config::Snapshot> snapshot;
  std::optional<fleet::ControlView> control;
  std::string limit_problem;
  config::WatchState watch;
  kafka::MembershipState membership;
  bool confirmed = true;
  kafka::OffsetStoreStats offsets;
  kafka::DeadLetterStats dead_letters;
  std::uint64_t retry_ignored = 0;
  std::shared_ptr<delivery::MemoryBudget> memory = std::make_shared<delivery::MemoryBudget>(1000);
  std::vector<runtime::Loop*> loops;

  [[nodiscard]] runtime::WallTime wall() { return world.clock.Read().wall; }
  [[nodiscard]] ratelimit::Label label() { return ratelimit::LabelAt(wall()); }

  std::shared_ptr<admin::WorkerView> View() {
    auto view = std::make_shared<admin::WorkerView>();
    view->instance = "orders-1";
    view->slot = 1;
    view->clock = &world.clock;
    view->loops = loops;
    view->subscriptions = [this] { return subscriptions; };
    view->snapshot = [this] { return config::SnapshotPtr(snapshot); };
    view->owned_partitions = [this] { return membership.owned.size(); };
    view->limits = [this] { return limits; };
    view->control = [this] { return control; };
    view->limit_problem = [this] { return limit_problem; };
    view->config = [this] { return watch; };
    view->membership = [this] { return membership; };
    view->membership_confirmed = [this] { return confirmed; };
    view->offsets = [this] { return offsets; };
    view->dead_letters = [this] { return dead_letters; };
    view->retry_ignored = [this] { return retry_ignored; };
    view->memory = memory;
    return view;
  }

  config::Limit AddLimit(const std::string& name, const std::string& rate, std::uint32_t instances = 1) {
    config::Limit limit;
    limit.name = name;
    limit.max_rate = *ratelimit::MaxRate::Parse(rate, nullptr);
    ratelimit::Plan plan;
    plan.rate = limit.max_rate;
    plan.burst = ratelimit::Burst::kAtOnce;
    plan.dealing = ratelimit::SlotDealing{0, instances};
    limits.push_back(
        {name, limit,
         std::make_shared<ratelimit::Limiter>(plan, ratelimit::Limiter::Options{}, wall() - std::chrono::seconds(10))});
    return limit;
  }

  /// Its shares are leases, and it coordinates the limits too.
  void Lease(const std::string& limit) {
    if (!control) control.emplace();
    control->partitions = 1;
    control->clock_offset = fleet::ClockOffset::Bounds{std::chrono::milliseconds(-1), std::chrono::milliseconds(3)};
    fleet::LeaseView lease;
    lease.limit = limit;
    lease.partition = 0;
    lease.coordinator = "orders-1";
    lease.epoch = 7;
    lease.lease = {{40, ratelimit::Lease::Source::kLease}, label() + 10, {7, 3}, false};
    lease.lease_age = std::chrono::milliseconds(250);
    lease.demand = {900, 60};
    lease.starved = true;
    control->limits.push_back(lease);
    ratelimit::Coordinator::LimitView view;
    view.total = 100;
    view.exposure = 98;
    view.members.push_back({11, true, true, 40, 40, 900, 39, label()});
    view.members.push_back({12, true, false, 58, 58, 60, 55, label()});
    fleet::CoordinatedView coordinated;
    coordinated.phase = ratelimit::Coordinator::Phase::kLeading;
    coordinated.epoch = 7;
    coordinated.limits.push_back({limit, view, {"orders-1", "orders-2"}});
    control->coordinated.push_back(coordinated);
  }

  /// Two shards each. The snapshot is made by Accept.
  delivery::SubscriptionShared& AddSubscription(const std::string& name, const std::string& limit = "") {
    auto config = std::make_shared<config::Subscription>();
    config->name = name;
    config->topic = "orders";
    config->endpoint = "https://user:hunter2@billing.example:8443/hooks/orders?token=hunter2#top";
    config->limit = limit;
    auto shared = std::make_shared<delivery::SubscriptionShared>(name, config->max_in_flight, 2);
    subscriptions.push_back({config, shared, {}, {}});
    return *shared;
  }

  /// The endpoint has said twice that it is overloaded, when a hundred attempts a second were made.
  void Slow(delivery::SubscriptionShared& shared) {
    for (const auto back : {std::chrono::milliseconds(600), std::chrono::milliseconds(0)}) {
      (void)shared.health.OnBad(delivery::EndpointHealth::Answer::kOverloaded, world.clock.Read().steady - back, {},
                                {100, 100}, runtime::Nanoseconds(0));
    }
  }

  /// What was added becomes the running revision.
  void Accept(const std::string& digest = "0123abcd") {
    snapshot = std::make_shared<config::Snapshot>();
    snapshot->digest = digest;
    snapshot->source_revision = "7";
    snapshot->instances = 1;
    for (const auto& limit : limits) snapshot->limits.push_back(limit.limit);
    for (const auto& subscription : subscriptions) snapshot->subscriptions.push_back(*subscription.config);
    watch.current = snapshot;
    watch.accepted += 1;
    watch.accepted_at = std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(world.clock.Read().steady.time_since_epoch()));
  }

  /// Takes `count` permits now; as many as there are.
  void Take(std::size_t limit, int count) {
    for (int i = 0; i < count; ++i) (void)limits[limit].limiter->Acquire(wall(), ratelimit::Nanoseconds(0));
  }
};

}  // namespace posthorn::test
