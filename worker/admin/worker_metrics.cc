#include "worker/admin/worker_metrics.h"

#include <algorithm>
#include <array>

#include "worker/admin/lane_lag.h"
#include "worker/admin/metric_samples.h"
#include "worker/admin/process_stats.h"

namespace posthorn::admin {
namespace {

using delivery::ShardStats;
using delivery::SubscriptionShared;

double Flag(bool value) { return value ? 1 : 0; }

template <typename Integer>
double Number(Integer value) {
  return static_cast<double>(value);
}

void AddDurations(MetricSamples& out, const SubscriptionShared& shared) {
  std::array<std::uint64_t, delivery::kDurationBoundsSeconds.size() + 1> counts{};
  std::uint64_t sum_ns = 0;
  for (const auto& stats : shared.per_shard) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += stats->duration_buckets[i].value();
    sum_ns += stats->duration_sum_ns.value();
  }
  out.AddHistogram(Metric::kDeliveryAttemptDuration, {shared.name}, delivery::kDurationBoundsSeconds, counts,
                   Number(sum_ns) / 1e9);
}

void AddReaders(MetricSamples& out, const delivery::Dispatcher::SubscriptionView& view) {
  std::size_t reading = 0;
  std::size_t waiting = 0;
  for (const auto& lane : view.lanes) {
    reading += lane.reader == delivery::LaneReader::kOwn ? 1 : 0;
    waiting += lane.reader == delivery::LaneReader::kWaitsForOwn ? 1 : 0;
  }
  if (reading + waiting == 0) return;
  out.Add(Metric::kOwnReaders, {view.shared->name, "reading"}, Number(reading));
  out.Add(Metric::kOwnReaders, {view.shared->name, "waiting"}, Number(waiting));
}

void AddSubscription(MetricSamples& out, const delivery::Dispatcher::SubscriptionView& view, runtime::SteadyTime now) {
  const auto& shared = *view.shared;
  const auto& name = shared.name;
  out.Add(Metric::kDeliveryAttempts, {name, "delivered"}, Number(shared.Sum(&ShardStats::attempts_delivered)));
  out.Add(Metric::kDeliveryAttempts, {name, "retryable"}, Number(shared.Sum(&ShardStats::attempts_retryable)));
  out.Add(Metric::kDeliveryAttempts, {name, "overload"}, Number(shared.Sum(&ShardStats::attempts_overload)));
  out.Add(Metric::kDeliveryAttempts, {name, "rejected"}, Number(shared.Sum(&ShardStats::attempts_rejected)));
  AddDurations(out, shared);
  out.Add(Metric::kMessagesFinished, {name, "delivered"}, Number(shared.Sum(&ShardStats::delivered)));
  out.Add(Metric::kMessagesFinished, {name, "expired"}, Number(shared.Sum(&ShardStats::expired)));
  out.Add(Metric::kMessagesFinished, {name, "attempts"}, Number(shared.Sum(&ShardStats::exhausted)));
  out.Add(Metric::kMessagesFinished, {name, "rejected"}, Number(shared.Sum(&ShardStats::rejected)));
  out.Add(Metric::kMessagesFinishedWithoutRecord, {name}, Number(shared.Sum(&ShardStats::finished_without_record)));
  out.Add(Metric::kPermitsNotSent, {name}, Number(shared.Sum(&ShardStats::not_sent)));
  out.Add(Metric::kInFlight, {name}, Number(shared.Sum(&ShardStats::in_flight)));
  out.Add(Metric::kWaitingForPermit, {name}, Number(shared.Sum(&ShardStats::waiting_for_permit)));
  out.Add(Metric::kRetrying, {name}, Number(shared.Sum(&ShardStats::retrying)));
  AddReaders(out, view);
  for (const auto& lane : view.lanes) {
    if (const auto lag = LagOf(lane)) {
      out.Add(Metric::kConsumerLag, {name, lane.partition.topic, std::to_string(lane.partition.partition)},
              Number(*lag));
    }
  }
  out.Add(Metric::kParkedHere, {name}, Number(view.shared->Sum(&ShardStats::parked_here)));
  out.Add(Metric::kParked, {name}, Number(view.shared->Sum(&ShardStats::parked)));
  out.Add(Metric::kParkingFailures, {name}, Number(view.shared->Sum(&ShardStats::parking_failures)));
  out.Add(Metric::kSubscriptionPaused, {name}, Flag(view.config->paused));
  const auto health = shared.health.Show(now);
  out.Add(Metric::kEndpointHealth, {name}, Number(static_cast<int>(health.state)));
  if (health.state == delivery::EndpointHealth::State::kSlowed) {
    out.Add(Metric::kEndpointCeiling, {name}, health.ceiling);
  }
}

void AddConfig(MetricSamples& out, const config::WatchState& state, runtime::SteadyTime now) {
  out.Add(Metric::kConfigRevisionsAccepted, {}, Number(state.accepted));
  out.Add(Metric::kConfigRevisionsRefused, {}, Number(state.refused));
  out.Add(Metric::kConfigNewestRefused, {}, Flag(state.newest_refused));
  out.Add(Metric::kConfigLate, {}, Number(state.late));
  out.Add(Metric::kConfigSourceFailures, {}, Number(state.source_failures));
  out.Add(Metric::kConfigSourceFailing, {}, Flag(!state.source_failure.empty()));
  out.Add(Metric::kConfigForeignRecords, {}, Number(state.ignored));
  out.Add(Metric::kConfigLastGood, {}, Flag(state.last_good));
  out.Add(Metric::kConfigNotKept, {}, Flag(!state.cache_failure.empty()));
  if (!state.current) return;
  out.Add(Metric::kConfigAge, {}, std::max(0.0, std::chrono::duration<double>(now - state.accepted_at).count()));
  out.Add(Metric::kConfigInfo, {state.current->digest}, 1);
}

void AddKafka(MetricSamples& out, const WorkerView& view) {
  const auto membership = view.membership();
  out.Add(Metric::kGroupMember, {}, Flag(membership.joined && !membership.fenced));
  out.Add(Metric::kGroupPartitionsOwned, {}, Number(view.owned_partitions()));
  out.Add(Metric::kGroupRebalances, {}, Number(membership.rebalances));
  out.Add(Metric::kGroupLostAssignments, {}, Number(membership.lost_assignments));
  out.Add(Metric::kMembershipConfirmed, {}, Flag(view.membership_confirmed()));
  const auto offsets = view.offsets();
  out.Add(Metric::kOffsetRequests, {}, Number(offsets.requests));
  out.Add(Metric::kOffsetRequestFailures, {}, Number(offsets.failures));
  out.Add(Metric::kOffsetOldestUnwritten, {}, std::chrono::duration<double>(offsets.oldest_unwritten).count());
  const auto letters = view.dead_letters();
  out.Add(Metric::kDeadLettersWritten, {}, Number(letters.written));
  out.Add(Metric::kDeadLetterFailures, {}, Number(letters.failed));
  out.Add(Metric::kRetryIgnored, {}, Number(view.retry_ignored()));
}

void AddControl(MetricSamples& out, const fleet::ControlView& control, ratelimit::Label label,
                const std::vector<fleet::LimitBook::View>& limits) {
  for (const auto& limit : limits) out.Add(Metric::kLimitTotal, {limit.name}, Number(limit.terms.Total(label)));
  for (const auto& limit : control.limits) {
    out.Add(Metric::kLimitDemand, {limit.limit}, Number(limit.demand.next_window));
    out.Add(Metric::kLimitStarved, {limit.limit}, Flag(limit.starved));
    if (limit.lease_age) {
      out.Add(Metric::kLeaseAge, {limit.limit}, std::chrono::duration<double>(*limit.lease_age).count());
    }
    out.Add(Metric::kLeaseMissing, {limit.limit}, Flag(limit.waits));
    if (!limit.coordinator.empty()) {
      out.Add(Metric::kLeaseEpoch, {limit.limit, limit.coordinator}, Number(limit.epoch));
    }
  }
  std::size_t leading = 0;
  for (const auto& partition : control.coordinated) {
    if (partition.phase != ratelimit::Coordinator::Phase::kLeading) continue;
    ++leading;
    for (const auto& limit : partition.limits) {
      out.Add(Metric::kLimitExposure, {limit.name}, Number(limit.view.exposure));
    }
  }
  out.Add(Metric::kPermitsAboveTotal, {}, Number(control.above_total));
  out.Add(Metric::kCoordinatedPartitions, {}, Number(leading));
  if (control.clock_offset) {
    out.Add(Metric::kClockOffset, {}, std::chrono::duration<double>(control.clock_offset->middle()).count());
  }
  out.Add(Metric::kClockFenced, {}, Flag(control.clock_fenced));
  out.Add(Metric::kControlReports, {}, Number(control.reports));
  out.Add(Metric::kControlGrants, {}, Number(control.grants));
  for (const auto fault : {fleet::WireFault::kForeign, fleet::WireFault::kNewer, fleet::WireFault::kDamaged}) {
    out.Add(Metric::kControlIgnored, {fleet::ToString(fault)},
            Number(control.ignored[static_cast<std::size_t>(fault)]));
  }
}

void AddProcess(MetricSamples& out) {
  const auto stats = ReadProcessStats();
  const auto add = [&out](Metric metric, double value) {
    if (value >= 0) out.Add(metric, {}, value);
  };
  add(Metric::kProcessResidentMemory, stats.resident_bytes);
  add(Metric::kProcessVirtualMemory, stats.virtual_bytes);
  add(Metric::kProcessOpenFds, stats.open_fds);
  add(Metric::kProcessMaxFds, stats.max_fds);
  add(Metric::kProcessThreads, stats.threads);
  add(Metric::kProcessCpuSeconds, stats.cpu_seconds);
  add(Metric::kProcessStartTime, stats.start_time_seconds);
}

}  // namespace

WorkerMetrics::WorkerMetrics(std::shared_ptr<const WorkerView> view) : view_(std::move(view)) {}

void WorkerMetrics::Tick() { permits_.Update(view_->limits(), view_->clock->Read().wall); }

std::string WorkerMetrics::Scrape() {
  const auto now = view_->clock->Read();
  MetricSamples out;
  for (const auto& subscription : view_->subscriptions()) AddSubscription(out, subscription, now.steady);
  const auto limits = view_->limits();
  permits_.Update(limits, now.wall);
  for (const auto& limit : limits) {
    out.Add(Metric::kPartialLimit, {limit.name}, Number(limit.limiter->PartialLimit(now.wall)));
    out.Add(Metric::kLimitMaxRate, {limit.name}, limit.limit.max_rate.PerSecond());
    out.Add(Metric::kLimitPermitsUsed, {limit.name}, Number(permits_.Total(limit.name)));
  }
  if (const auto control = view_->control()) AddControl(out, *control, ratelimit::LabelAt(now.wall), limits);
  AddConfig(out, view_->config(), now.steady);
  AddKafka(out, *view_);
  out.Add(Metric::kMemoryHeld, {}, Number(view_->memory->used.load(std::memory_order_relaxed)));
  out.Add(Metric::kMemoryLimit, {}, Number(view_->memory->limit));
  out.Add(Metric::kBuildInfo, {POSTHORN_VERSION}, 1);
  AddProcess(out);
  return out.Text();
}

}  // namespace posthorn::admin
