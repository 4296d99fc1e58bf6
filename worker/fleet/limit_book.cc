#include "worker/fleet/limit_book.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "worker/delivery/retry_record.h"
#include "worker/runtime/log.h"

namespace posthorn::fleet {
namespace {

// The part of a limit that goes where its parked messages are: enough that they do not lie about while the limit has
// room, and little lost where nothing is parked.
constexpr std::uint32_t kRetryPart = 16;

ratelimit::Burst ToRateLimit(config::Burst burst) {
  return burst == config::Burst::kWindow ? ratelimit::Burst::kAtOnce : ratelimit::Burst::kSmooth;
}

}  // namespace

std::shared_ptr<ratelimit::Limiter> LimitBook::Find(const std::string& limit) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(limit);
  return entry == entries_.end() ? nullptr : entry->second.limiter;
}

void LimitBook::OnSnapshot(const config::SnapshotPtr& snapshot, runtime::WallTime now) {
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = snapshot;
    scheduled_.reset();
    Replan(now);
  }
  if (const auto problem = Problem(); !problem.empty()) {
    runtime::Log(runtime::LogLevel::kError, "no share of the limits", {{"why", problem}});
  }
}

void LimitBook::OnScheduled(const config::SnapshotPtr& snapshot, runtime::WallTime now) {
  const std::lock_guard lock(mutex_);
  scheduled_ = snapshot;
  Replan(now);
}

void LimitBook::OnGained(const std::vector<delivery::TopicPartition>& partitions, runtime::WallTime now) {
  const std::lock_guard lock(mutex_);
  owned_.insert(partitions.begin(), partitions.end());
  Replan(now);
}

void LimitBook::OnRevoked(const std::vector<delivery::TopicPartition>& partitions, runtime::WallTime now) {
  const std::lock_guard lock(mutex_);
  for (const auto& partition : partitions) owned_.erase(partition);
  Replan(now);
}

void LimitBook::OnPartitionCounts(const std::vector<std::pair<std::string, std::int32_t>>& counts,
                                  runtime::WallTime now) {
  const std::lock_guard lock(mutex_);
  for (const auto& [topic, count] : counts) {
    if (count > 0) partition_counts_[topic] = static_cast<std::uint32_t>(count);
  }
  Replan(now);
}

std::optional<ratelimit::Plan::Dealing> LimitBook::DealingOf(const config::Snapshot& snapshot,
                                                             const std::string& limit) const {
  if (snapshot.instances) {
    // Without a slot: one past the end, which has no share.
    return ratelimit::SlotDealing{options_.slot.value_or(*snapshot.instances), *snapshot.instances};
  }
  std::map<std::string, ratelimit::PartitionDealing::Topic> topics;
  for (const auto& subscription : snapshot.subscriptions) {
    if (subscription.limit != limit) continue;
    const auto count = partition_counts_.find(subscription.topic);
    if (count == partition_counts_.end()) return std::nullopt;  // all counts or none, see PartitionDealing
    auto& topic = topics[subscription.topic];
    topic.name = subscription.topic;
    topic.partitions = count->second;
  }
  AddRetryPartitions(snapshot, limit, topics);
  for (const auto& partition : owned_) {
    const auto [name, number] = InDealing(partition);
    const auto topic = topics.find(name);
    if (topic != topics.end()) topic->second.owned.push_back(number);
  }
  ratelimit::PartitionDealing dealing;
  for (auto& [name, topic] : topics) dealing.topics.push_back(std::move(topic));
  return dealing;
}

LimitBook::DealtPartition LimitBook::InDealing(const delivery::TopicPartition& partition) const {
  const auto number = static_cast<std::uint32_t>(partition.partition);
  if (partition.topic != options_.retry_topic) return {partition.topic, number};
  return {partition.topic + "/" + std::to_string(number), 0};  // no topic can have this name
}

/// Those of the retry topic that carry a subscription of the limit: together a kRetryPart-th of it.
void LimitBook::AddRetryPartitions(const config::Snapshot& snapshot, const std::string& limit,
                                   std::map<std::string, ratelimit::PartitionDealing::Topic>& topics) const {
  const auto count = partition_counts_.find(options_.retry_topic);
  if (count == partition_counts_.end()) return;
  std::set<std::string> retrying;
  for (const auto& subscription : snapshot.subscriptions) {
    if (subscription.limit != limit) continue;
    const auto number = delivery::RetryPartition(subscription.name, static_cast<std::int32_t>(count->second));
    retrying.insert(InDealing({options_.retry_topic, number}).first);
  }
  if (retrying.empty()) return;
  std::uint32_t partitions = 0;
  for (auto& [name, topic] : topics) {
    partitions += topic.partitions;
    topic.weight = kRetryPart - 1;
  }
  const auto weight = std::max<std::uint32_t>(1, partitions / static_cast<std::uint32_t>(retrying.size()));
  for (const auto& name : retrying) topics[name] = {name, 1, {}, weight};
}

void LimitBook::PlanShares(Entry& entry, runtime::WallTime now) const {
  if (options_.by_lease) {
    PlanByLease(entry.plan, entry.limit, now);
  } else {
    PlanStatically(entry);
  }
  entry.plan.rate = entry.limit.max_rate;
  entry.plan.burst = ToRateLimit(entry.limit.burst);
}

void LimitBook::PlanByLease(ratelimit::Plan& plan, const config::Limit& limit, runtime::WallTime now) const {
  const auto* known = std::get_if<ratelimit::LeaseDealing>(&plan.dealing);
  const std::uint32_t slots = snapshot_->instances.value_or(0);
  auto next = NextOf(limit.name);
  if (next) next->dealing = ratelimit::LeaseDealing{scheduled_->instances.value_or(0), 0};
  const bool changed = known == nullptr || plan.rate != limit.max_rate || known->slots != slots || plan.next != next;
  std::uint64_t revision = known == nullptr ? 0 : known->revision;
  if (changed) {
    // No source's own number would do for all sources; the time of learning orders changes as far as it must: a
    // worker cuts its share when it has learned of a lower rate since the coordinator learned what it granted by.
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
    revision = std::max(revision + 1, static_cast<std::uint64_t>(std::max<decltype(ms)>(ms, 0)));
  }
  plan.dealing = ratelimit::LeaseDealing{slots, revision};
  plan.next = std::move(next);
}

void LimitBook::PlanStatically(Entry& entry) const {
  auto& plan = entry.plan;
  if (auto dealing = DealingOf(*snapshot_, entry.limit.name)) {
    plan.dealing = std::move(*dealing);
  } else if (!entry.limiter) {
    plan.dealing = ratelimit::PartitionDealing{};
  } else if (auto* kept = std::get_if<ratelimit::PartitionDealing>(&plan.dealing)) {
    // A count is not known yet, so the table stays; but what was given up ends at once all the same.
    std::set<DealtPartition> owned;
    for (const auto& partition : owned_) owned.insert(InDealing(partition));
    for (auto& topic : kept->topics) {
      std::erase_if(topic.owned, [&](std::uint32_t number) { return !owned.contains({topic.name, number}); });
    }
  }
  plan.next = NextOf(entry.limit.name);
  if (!plan.next) return;
  auto dealing = DealingOf(*scheduled_, entry.limit.name);
  plan.next->dealing = dealing ? std::move(*dealing) : plan.dealing;
}

/// What the scheduled revision makes of a limit, but for its dealing.
std::optional<ratelimit::Plan::Next> LimitBook::NextOf(const std::string& limit) const {
  if (!scheduled_ || !scheduled_->effective_at) return std::nullopt;
  const auto& limits = scheduled_->limits;
  const auto found = std::find_if(limits.begin(), limits.end(), [&](const auto& one) { return one.name == limit; });
  if (found == limits.end()) return std::nullopt;
  return ratelimit::Plan::Next{
      ratelimit::LabelAt(*scheduled_->effective_at), found->max_rate, ToRateLimit(found->burst), {}};
}

void LimitBook::Replan(runtime::WallTime now) {
  if (!snapshot_) return;
  std::map<std::string, Entry> next;
  for (const auto& limit : snapshot_->limits) {
    Entry entry;
    if (auto known = entries_.extract(limit.name)) {
      entry = std::move(known.mapped());
    } else if (auto retired = retired_.extract(limit.name)) {
      entry = std::move(retired.mapped().entry);
    }
    entry.limit = limit;
    PlanShares(entry, now);
    if (entry.limiter) {
      entry.limiter->SetPlan(entry.plan, now);
    } else {
      ratelimit::Limiter::Options options{options_.timing, options_.phase};
      if (options_.by_lease) options.by_lease = {limit.name, *options_.by_lease};
      entry.limiter = std::make_shared<ratelimit::Limiter>(entry.plan, options, now);
    }
    next[limit.name] = std::move(entry);
  }
  if (options_.by_lease) Retire(entries_, now);
  entries_ = std::move(next);
  changes_.fetch_add(1, std::memory_order_release);
}

void LimitBook::Retire(std::map<std::string, Entry>& removed, runtime::WallTime now) {
  std::erase_if(retired_, [now](const auto& retired) { return retired.second.until < now; });
  for (auto& [name, entry] : removed) {
    retired_[name] = {std::move(entry), now + (ratelimit::kLongestLease + 2) * ratelimit::kWindow};
  }
}

std::vector<LimitBook::View> LimitBook::Views() const {
  const std::lock_guard lock(mutex_);
  std::vector<View> views;
  for (const auto& [name, entry] : entries_) {
    View view{name, entry.limit, entry.limiter};
    if (const auto* lease = std::get_if<ratelimit::LeaseDealing>(&entry.plan.dealing)) {
      view.terms = {entry.plan.rate, lease->slots, lease->revision};
      if (const auto& next = entry.plan.next) {
        view.terms.next = {next->from, next->rate, std::get<ratelimit::LeaseDealing>(next->dealing).slots};
      }
    }
    views.push_back(std::move(view));
  }
  return views;
}

std::optional<ratelimit::SlotClaim> LimitBook::Claim() const {
  const std::lock_guard lock(mutex_);
  if (!options_.by_lease || !options_.by_lease->slot || !snapshot_ || !snapshot_->instances) return std::nullopt;
  if (*options_.by_lease->slot >= *snapshot_->instances) return std::nullopt;
  return ratelimit::Lease::ClaimOf(*options_.by_lease);
}

std::string LimitBook::Problem() const {
  const std::lock_guard lock(mutex_);
  if (options_.by_lease || !snapshot_ || !snapshot_->instances) return "";
  if (!options_.slot) return "`instances` is set, but the instance name does not end in a number (its slot)";
  if (*options_.slot >= *snapshot_->instances) {
    return "slot " + std::to_string(*options_.slot) + " is not below `instances` " +
           std::to_string(*snapshot_->instances);
  }
  return "";
}

}  // namespace posthorn::fleet
