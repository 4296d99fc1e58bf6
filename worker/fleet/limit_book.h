#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/limits.h"

namespace posthorn::fleet {

/// What part of each limit is this worker's. Static shares: from the watched configuration (slot k of N) or, when that
/// names no N, from the partitions it owns; there whoever owns the partition of the retry topic in which a
/// subscription's parked messages are has a part too (a sixteenth of the limit), or they would wait for ever where it
/// has no other. By lease: from what the limiters are granted (control_node.h), and from the
/// slot without a lease.
///
/// One Limiter per limit, kept over revisions. A limit that is removed and added again begins anew, a window later; by
/// lease it is kept over that as well, since a share it still holds must not be spent twice.
/// Threads  Any; a change of the configuration or of ownership takes one lock, delivery attempts none of it.
/// Errors   `instances` without a slot in the instance name, or a slot not below it, means no share; it is logged and
///          shown by Problem().
class LimitBook final : public delivery::Limits {
 public:
  struct Options {
    std::optional<std::uint32_t> slot;  // this worker's, from its instance name
    double phase = 0;                   // see ratelimit::Limiter::Options
    ratelimit::Timing timing;
    std::string retry_topic{};                                         // the fleet's; empty: none
    std::optional<ratelimit::Lease::Process> by_lease = std::nullopt;  // unset: static shares
  };
  explicit LimitBook(Options options) : options_(options) {}

  [[nodiscard]] std::shared_ptr<ratelimit::Limiter> Find(const std::string& limit) override;
  void OnSnapshot(const config::SnapshotPtr& snapshot, runtime::WallTime now) override;
  void OnScheduled(const config::SnapshotPtr& snapshot, runtime::WallTime now) override;
  void OnGained(const std::vector<delivery::TopicPartition>& partitions, runtime::WallTime now) override;
  void OnRevoked(const std::vector<delivery::TopicPartition>& partitions, runtime::WallTime now) override;
  void OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts,
                         runtime::WallTime now) override;

  struct View {
    std::string name;
    config::Limit limit;
    std::shared_ptr<ratelimit::Limiter> limiter;
    ratelimit::Terms terms = {};  // by lease; the revision rises with each change that this worker has learned of
  };
  [[nodiscard]] std::vector<View> Views() const;
  /// Rises with every change of what Views and Claim say.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  /// This process's slot in the limits by lease. nullopt: it has none.
  [[nodiscard]] std::optional<ratelimit::SlotClaim> Claim() const;
  /// Why this worker has no share although it could have work; empty when all is well.
  [[nodiscard]] std::string Problem() const;

 private:
  struct Entry {
    config::Limit limit;
    ratelimit::Plan plan;
    std::shared_ptr<ratelimit::Limiter> limiter;
  };
  void Replan(runtime::WallTime now);
  void Retire(std::map<std::string, Entry>& removed, runtime::WallTime now);
  void PlanShares(Entry& entry, runtime::WallTime now) const;
  void PlanByLease(ratelimit::Plan& plan, const config::Limit& limit, runtime::WallTime now) const;
  void PlanStatically(Entry& entry) const;
  [[nodiscard]] std::optional<ratelimit::Plan::Next> NextOf(const std::string& limit) const;
  /// nullopt: a count of partitions is not known.
  [[nodiscard]] std::optional<ratelimit::Plan::Dealing> DealingOf(const config::Snapshot& snapshot,
                                                                  const std::string& limit) const;
  /// The name of a partition in the dealing: there, one of the retry topic is a topic of its own.
  using DealtPartition = std::pair<std::string, std::uint32_t>;
  [[nodiscard]] DealtPartition InDealing(const delivery::TopicPartition& partition) const;
  void AddRetryPartitions(const config::Snapshot& snapshot, const std::string& limit,
                          std::map<std::string, ratelimit::PartitionDealing::Topic>& topics) const;

  const Options options_;
  mutable std::mutex mutex_;
  config::SnapshotPtr snapshot_;   // in force
  config::SnapshotPtr scheduled_;  // will be at its `effective_at`
  std::atomic<std::uint64_t> changes_{0};
  std::map<std::string, std::uint32_t> partition_counts_;
  std::set<delivery::TopicPartition> owned_;
  std::map<std::string, Entry> entries_;
  struct Retired {
    Entry entry;
    runtime::WallTime until{};
  };
  std::map<std::string, Retired> retired_;  // by lease: removed, and something of it may still be held
};

}  // namespace posthorn::fleet
