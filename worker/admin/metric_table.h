#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace posthorn::admin {

/// Every series a worker shows, in the order of the page. The name and what it means stand in the table, once.
enum class Metric : std::uint8_t {
  kDeliveryAttempts,
  kDeliveryAttemptDuration,
  kMessagesFinished,
  kMessagesFinishedWithoutRecord,
  kPermitsNotSent,
  kInFlight,
  kWaitingForPermit,
  kRetrying,
  kParkedHere,
  kParked,
  kParkingFailures,
  kOwnReaders,
  kConsumerLag,
  kSubscriptionPaused,
  kEndpointHealth,
  kEndpointCeiling,
  kPartialLimit,
  kLimitMaxRate,
  kLimitPermitsUsed,
  kLimitTotal,
  kLimitDemand,
  kLimitStarved,
  kLeaseAge,
  kLeaseMissing,
  kLeaseEpoch,
  kLimitExposure,
  kPermitsAboveTotal,
  kCoordinatedPartitions,
  kClockOffset,
  kClockFenced,
  kControlReports,
  kControlGrants,
  kControlIgnored,
  kConfigRevisionsAccepted,
  kConfigRevisionsRefused,
  kConfigNewestRefused,
  kConfigLate,
  kConfigSourceFailures,
  kConfigSourceFailing,
  kConfigForeignRecords,
  kConfigLastGood,
  kConfigNotKept,
  kConfigAge,
  kConfigInfo,
  kGroupMember,
  kGroupPartitionsOwned,
  kGroupRebalances,
  kGroupLostAssignments,
  kMembershipConfirmed,
  kOffsetRequests,
  kOffsetRequestFailures,
  kOffsetOldestUnwritten,
  kDeadLettersWritten,
  kDeadLetterFailures,
  kRetryIgnored,
  kMemoryHeld,
  kMemoryLimit,
  kBuildInfo,
  kProcessResidentMemory,
  kProcessVirtualMemory,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessThreads,
  kProcessCpuSeconds,
  kProcessStartTime,
};
inline constexpr std::size_t kMetricCount = static_cast<std::size_t>(Metric::kProcessStartTime) + 1;

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };

struct MetricEntry {
  Metric id;
  std::string_view name;
  MetricKind kind;
  std::string_view unit;                   // empty: a count, a flag, or what the name says
  std::array<std::string_view, 3> labels;  // names, empty ones at the end; their values come from closed sets only
  std::string_view help;
  [[nodiscard]] std::size_t label_count() const;
};

/// THE table. Metrics are produced only through MetricSamples, which only takes what stands here.
[[nodiscard]] const std::array<MetricEntry, kMetricCount>& MetricTable();
[[nodiscard]] const MetricEntry& EntryOf(Metric metric);

/// The table as it stands in docs/operating.md.
[[nodiscard]] std::string MetricReference();
/// Puts it between the two markers of `page`. False and nothing done when they are not there. A test compares the page
/// in the tree with what this makes of it.
[[nodiscard]] bool ReplaceMetricReference(std::string& page);

}  // namespace posthorn::admin
