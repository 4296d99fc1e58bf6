#include "worker/admin/metric_table.h"

#include <algorithm>

namespace posthorn::admin {
namespace {

using enum MetricKind;

constexpr std::array<MetricEntry, kMetricCount> kTable = {{
    {Metric::kDeliveryAttempts,
     "posthorn_delivery_attempts_total",
     kCounter,
     "attempts",
     {"subscription", "outcome"},
     "HTTP requests that ended, by outcome: delivered, retryable, overload (429, 502, 503, 504), rejected."},
    {Metric::kDeliveryAttemptDuration,
     "posthorn_delivery_attempt_duration_seconds",
     kHistogram,
     "seconds",
     {"subscription"},
     "Time of one attempt, from the start of the request to the end of the answer or the failure."},
    {Metric::kMessagesFinished,
     "posthorn_messages_finished_total",
     kCounter,
     "messages",
     {"subscription", "result"},
     "Messages that are done, by result: delivered, expired (TTL), attempts (max_attempts), rejected."},
    {Metric::kMessagesFinishedWithoutRecord,
     "posthorn_messages_finished_without_record_total",
     kCounter,
     "messages",
     {"subscription"},
     "Messages that were not delivered and left no dead letter, because the subscription has `dead_letters: false`."},
    {Metric::kPermitsNotSent,
     "posthorn_permits_not_sent_total",
     kCounter,
     "permits",
     {"subscription"},
     "Permits spent without a request: it was taken back before a byte was written, or connecting took until a later "
     "second and it had to take another one."},
    {Metric::kInFlight, "posthorn_in_flight", kGauge, "requests", {"subscription"}, "Requests on their way now."},
    {Metric::kWaitingForPermit,
     "posthorn_waiting_for_permit",
     kGauge,
     "messages",
     {"subscription"},
     "Messages that could be sent now and wait for a permit or for a free place in flight."},
    {Metric::kRetrying,
     "posthorn_retrying",
     kGauge,
     "messages",
     {"subscription"},
     "Messages that failed and wait for their next attempt."},
    {Metric::kParkedHere,
     "posthorn_parked",
     kGauge,
     "messages",
     {"subscription"},
     "Messages in the retry topic that are carried on by this worker and not finished."},
    {Metric::kParked,
     "posthorn_messages_parked_total",
     kCounter,
     "messages",
     {"subscription"},
     "Messages written to the retry topic, because they kept their lane from going on."},
    {Metric::kParkingFailures,
     "posthorn_parking_failures_total",
     kCounter,
     "",
     {"subscription"},
     "Messages Kafka did not take into the retry topic. They stay unfinished in their lane and are tried again."},
    {Metric::kOwnReaders,
     "posthorn_own_readers",
     kGauge,
     "partitions",
     {"subscription", "state"},
     "Partitions this subscription reads apart from the others of its topic, by state: reading (it has a reader), "
     "waiting (for its turn with one, or because it has enough unread). Missing when there are none."},
    {Metric::kConsumerLag,
     "posthorn_consumer_lag_records",
     kGauge,
     "messages",
     {"subscription", "topic", "partition"},
     "Log end offset minus the offset below which everything is finished, of the partitions this worker owns. Missing "
     "while the log end is not known."},
    {Metric::kSubscriptionPaused,
     "posthorn_subscription_paused",
     kGauge,
     "",
     {"subscription"},
     "1 when the configuration pauses the subscription."},
    {Metric::kEndpointHealth,
     "posthorn_endpoint_health",
     kGauge,
     "",
     {"subscription"},
     "What this worker makes of the endpoint's answers: 0 healthy, 1 slowed, 2 probing (everything fails), 3 held "
     "(`Retry-After`)."},
    {Metric::kEndpointCeiling,
     "posthorn_endpoint_ceiling_attempts_per_second",
     kGauge,
     "attempts per second",
     {"subscription"},
     "While slowed: the rate this worker has reduced itself to. Missing otherwise."},
    {Metric::kPartialLimit,
     "posthorn_partial_limit_permits",
     kGauge,
     "permits per second",
     {"limit"},
     "This worker's share of the limit in the running window of one second."},
    {Metric::kLimitMaxRate,
     "posthorn_limit_max_rate",
     kGauge,
     "permits per second",
     {"limit"},
     "The configured max-rate of the whole fleet."},
    {Metric::kLimitPermitsUsed,
     "posthorn_limit_permits_used_total",
     kCounter,
     "permits",
     {"limit"},
     "Permits this worker has taken; over all workers, its increase in one window is at most the max-rate."},
    {Metric::kLimitTotal,
     "posthorn_limit_total_permits",
     kGauge,
     "permits",
     {"limit"},
     "Permits of the whole fleet in the running window. This and what follows, up to the configuration: adaptive "
     "shares "
     "only."},
    {Metric::kLimitDemand,
     "posthorn_limit_demand_permits",
     kGauge,
     "permits",
     {"limit"},
     "Attempts this worker could start in the next window, as it reports them."},
    {Metric::kLimitStarved,
     "posthorn_limit_starved",
     kGauge,
     "",
     {"limit"},
     "1 while more waits here than this worker's share of the running window has left."},
    {Metric::kLeaseAge,
     "posthorn_lease_age_seconds",
     kGauge,
     "seconds",
     {"limit"},
     "Since the newest grant came. Leases are renewed every second and run for ten. Missing before the first."},
    {Metric::kLeaseMissing,
     "posthorn_lease_missing",
     kGauge,
     "",
     {"limit"},
     "1 while this worker has neither a lease nor a slot and so delivers nothing under the limit."},
    {Metric::kLeaseEpoch,
     "posthorn_lease_epoch",
     kGauge,
     "",
     {"limit", "coordinator"},
     "Epoch of the limit's coordinator, as this worker read it in the log of grants. The same in all workers, but for "
     "moments."},
    {Metric::kLimitExposure,
     "posthorn_limit_exposure_permits",
     kGauge,
     "permits",
     {"limit"},
     "What all workers together may use of the running window at most, as the coordinator knows; shown by it alone. "
     "Above "
     "the total for seconds after a lowered max-rate or a take-over only."},
    {Metric::kPermitsAboveTotal,
     "posthorn_permits_above_limit_total",
     kCounter,
     "permits",
     {},
     "Permits that all workers together have used of a window above its total, as far as they reported it to this "
     "coordinator. Must stay 0."},
    {Metric::kCoordinatedPartitions,
     "posthorn_coordinated_partitions",
     kGauge,
     "partitions",
     {},
     "Control partitions whose limits this worker coordinates now."},
    {Metric::kClockOffset,
     "posthorn_clock_offset_seconds",
     kGauge,
     "seconds",
     {},
     "This worker's clock minus that of the control cluster's brokers. Missing until it is measured."},
    {Metric::kClockFenced,
     "posthorn_clock_fenced",
     kGauge,
     "",
     {},
     "1 while the clock is further off than `max_clock_offset`: nothing is delivered here under limits."},
    {Metric::kControlReports, "posthorn_control_reports_total", kCounter, "", {}, "Reports sent to coordinators."},
    {Metric::kControlGrants, "posthorn_control_grants_total", kCounter, "", {}, "Grants taken by this worker."},
    {Metric::kControlIgnored,
     "posthorn_control_records_ignored_total",
     kCounter,
     "",
     {"fault"},
     "Records of the control topics that were left out, by fault: foreign, newer (of a later version), damaged."},
    {Metric::kConfigRevisionsAccepted,
     "posthorn_config_revisions_accepted_total",
     kCounter,
     "revisions",
     {},
     "Revisions of the subscriptions that were put in force."},
    {Metric::kConfigRevisionsRefused,
     "posthorn_config_revisions_refused_total",
     kCounter,
     "revisions",
     {},
     "Revisions that were refused whole because of a fault."},
    {Metric::kConfigNewestRefused,
     "posthorn_config_newest_refused",
     kGauge,
     "",
     {},
     "1 while the newest revision of the source is a refused one and an older one is running; /config has the faults."},
    {Metric::kConfigSourceFailures,
     "posthorn_config_source_failures_total",
     kCounter,
     "",
     {},
     "Times the source of the subscriptions could not be read."},
    {Metric::kConfigAge,
     "posthorn_config_age_seconds",
     kGauge,
     "seconds",
     {},
     "Since the running revision was put in force. Missing before the first."},
    {Metric::kConfigInfo,
     "posthorn_config_info",
     kGauge,
     "",
     {"digest"},
     "1, with the digest of the running revision: the same on all workers of a fleet that have the same one."},
    {Metric::kGroupMember,
     "posthorn_group_member",
     kGauge,
     "",
     {},
     "1 while the coordinator of the consumer group counts this worker as a member with an assignment."},
    {Metric::kGroupPartitionsOwned,
     "posthorn_group_partitions_owned",
     kGauge,
     "partitions",
     {},
     "Partitions of the subscriptions' topics this worker reads."},
    {Metric::kGroupRebalances,
     "posthorn_group_rebalances_total",
     kCounter,
     "",
     {},
     "Changes of the assignment this worker took part in."},
    {Metric::kGroupLostAssignments,
     "posthorn_group_lost_assignments_total",
     kCounter,
     "",
     {},
     "Times the partitions were lost without being given back: the worker was away longer than its session."},
    {Metric::kMembershipConfirmed,
     "posthorn_membership_confirmed",
     kGauge,
     "",
     {},
     "0 while this worker does not know whether it is still a member, and so sends and commits nothing."},
    {Metric::kOffsetRequests,
     "posthorn_offset_requests_total",
     kCounter,
     "requests",
     {},
     "Requests to Kafka that store offsets."},
    {Metric::kOffsetRequestFailures,
     "posthorn_offset_request_failures_total",
     kCounter,
     "requests",
     {},
     "Those that failed, whole or for a partition. They are repeated."},
    {Metric::kOffsetOldestUnwritten,
     "posthorn_offset_oldest_unwritten_seconds",
     kGauge,
     "seconds",
     {},
     "Age of the oldest position that is finished and not stored yet: what a crash now would deliver again."},
    {Metric::kDeadLettersWritten,
     "posthorn_dead_letters_written_total",
     kCounter,
     "messages",
     {},
     "Dead letters acknowledged by Kafka."},
    {Metric::kDeadLetterFailures,
     "posthorn_dead_letter_failures_total",
     kCounter,
     "",
     {},
     "Dead letters Kafka did not take. They are repeated; the message stays unfinished meanwhile."},
    {Metric::kRetryIgnored,
     "posthorn_retry_records_ignored_total",
     kCounter,
     "",
     {},
     "Records of the retry topic that were passed over: not written by Posthorn, by another version, or damaged."},
    {Metric::kMemoryHeld,
     "posthorn_memory_held_bytes",
     kGauge,
     "bytes",
     {},
     "Bytes of messages held: unread in a ring, in flight, waiting."},
    {Metric::kMemoryLimit,
     "posthorn_memory_limit_bytes",
     kGauge,
     "bytes",
     {},
     "Bound of posthorn_memory_held_bytes: the part of `memory` that is not the Kafka client's."},
    {Metric::kBuildInfo, "posthorn_build_info", kGauge, "", {"version"}, "1, with the version of this worker."},
    {Metric::kProcessResidentMemory, "process_resident_memory_bytes", kGauge, "bytes", {}, "Resident memory."},
    {Metric::kProcessVirtualMemory, "process_virtual_memory_bytes", kGauge, "bytes", {}, "Virtual memory."},
    {Metric::kProcessOpenFds, "process_open_fds", kGauge, "", {}, "Open file descriptors."},
    {Metric::kProcessMaxFds, "process_max_fds", kGauge, "", {}, "Limit of open file descriptors."},
    {Metric::kProcessThreads, "process_threads", kGauge, "", {}, "Threads."},
    {Metric::kProcessCpuSeconds,
     "process_cpu_seconds_total",
     kCounter,
     "seconds",
     {},
     "CPU time, user and system together."},
    {Metric::kProcessStartTime,
     "process_start_time_seconds",
     kGauge,
     "seconds",
     {},
     "When the process was started, since 1970."},
}};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].id) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "one entry per metric, in the order of the enumeration");

constexpr std::string_view ToString(MetricKind kind) {
  switch (kind) {
    case kCounter:
      return "counter";
    case kGauge:
      return "gauge";
    case kHistogram:
      return "histogram";
  }
  return "";
}

}  // namespace

std::size_t MetricEntry::label_count() const {
  return static_cast<std::size_t>(std::find(labels.begin(), labels.end(), std::string_view()) - labels.begin());
}

const std::array<MetricEntry, kMetricCount>& MetricTable() { return kTable; }

const MetricEntry& EntryOf(Metric metric) { return kTable[static_cast<std::size_t>(metric)]; }

std::string MetricReference() {
  std::string page = "| series | kind | unit | labels | what |\n|---|---|---|---|---|\n";
  for (const auto& entry : kTable) {
    std::string labels;
    for (std::size_t i = 0; i < entry.label_count(); ++i) {
      labels += (i == 0 ? "`" : ", `") + std::string(entry.labels[i]) + "`";
    }
    page += "| `" + std::string(entry.name) + "` | " + std::string(ToString(entry.kind)) + " | " +
            std::string(entry.unit) + " | " + labels + " | " + std::string(entry.help) + " |\n";
  }
  return page;
}

bool ReplaceMetricReference(std::string& page) {
  constexpr std::string_view kBegin = "<!-- metrics begin: generated from worker/admin/metric_table.cc -->\n\n";
  constexpr std::string_view kEnd = "<!-- metrics end -->";
  const auto begin = page.find(kBegin);
  if (begin == std::string::npos) return false;
  const auto first = begin + kBegin.size();
  const auto end = page.find(kEnd, first);
  if (end == std::string::npos) return false;
  page.replace(first, end - first, MetricReference() + "\n");
  return true;
}

}  // namespace posthorn::admin
