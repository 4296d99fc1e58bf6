#include "worker/kafka/commit_planner.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

constexpr auto kShortestWait = 50ms;  // between two wake-ups for want of budget
constexpr auto kActiveFor = 10s;      // a subscription counts as changing after its last write

std::optional<CommitPlanner::Time> Earlier(std::optional<CommitPlanner::Time> a, std::optional<CommitPlanner::Time> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace

CommitPlanner::Time CommitPlanner::TurnOf(const Subscription& subscription, bool urgent, Time now) const {
  if (urgent || !subscription.written_at) return now;
  return std::max(now, *subscription.written_at + options_.interval);
}

CommitPlanner::Time CommitPlanner::RefreshTime(Time now, bool age_known) {
  const Duration interval = options_.retention / 10;
  if (age_known) {
    // A little apart, so that what was written together is not due together for ever.
    return now + std::uniform_int_distribution<Duration::rep>(interval.count() * 9 / 10, interval.count())(random_) *
                     Duration(1);
  }
  const Duration latest = std::min<Duration>(interval, 10min);
  return now + Duration(std::uniform_int_distribution<Duration::rep>(0, latest.count())(random_));
}

void CommitPlanner::Update(const Key& key, delivery::Position position, bool urgent, bool changed, Time now) {
  assert(position.next >= 0);
  auto& subscription = subscriptions_[key.subscription];
  auto& entry = subscription.entries[key.partition];
  const bool fresh = entry.version == 0;
  if (!fresh && entry.position == position) changed = false;
  if (fresh || changed) {
    entry.position = std::move(position);
    entry.version = ++versions_;
  }
  if (fresh) {
    entry.refresh_at = RefreshTime(now, false);
    next_refresh_ = std::min(next_refresh_, entry.refresh_at);
    wake_at_ = std::min(wake_at_, entry.refresh_at);
  }
  if (changed && !entry.changed_since) entry.changed_since = now;
  if (!entry.changed_since) return;
  subscription.oldest = Earlier(subscription.oldest, entry.changed_since);
  subscription.turn_at = Earlier(subscription.turn_at, TurnOf(subscription, urgent, now));
  ready_.insert(key.subscription);
  if (!subscription.busy) wake_at_ = std::min(wake_at_, std::max(*subscription.turn_at, subscription.not_before));
}

void CommitPlanner::Flush(const std::vector<Key>& keys, std::function<void(bool)> done, Calls& calls) {
  PendingFlush pending;
  for (const auto& key : keys) {
    const auto subscription = subscriptions_.find(key.subscription);
    if (subscription == subscriptions_.end()) continue;
    const auto found = subscription->second.entries.find(key.partition);
    if (found == subscription->second.entries.end()) continue;
    auto& entry = found->second;
    if (entry.stored == entry.version && entry.age_known) continue;
    pending.wanted[key] = entry.version;
    if (entry.under_way && !entry.changed_since) continue;
    entry.flush = true;
    subscription->second.flush = true;
    ready_.insert(key.subscription);
    wake_at_ = Time::min();
  }
  if (pending.wanted.empty()) {
    calls.emplace_back(std::move(done), true);
    return;
  }
  pending.done = std::move(done);
  flushes_.push_back(std::move(pending));
}

void CommitPlanner::Drop(const std::vector<Key>& keys, Calls& calls) {
  for (const auto& key : keys) {
    const auto found = subscriptions_.find(key.subscription);
    if (found == subscriptions_.end()) continue;
    auto& subscription = found->second;
    subscription.entries.erase(key.partition);
    ReviewEntries(subscription);
    if (!subscription.turn_at && !subscription.flush && !subscription.refresh) ready_.erase(key.subscription);
    // A busy one is kept for its answer.
    if (subscription.entries.empty() && !subscription.busy) subscriptions_.erase(found);
  }
  for (auto& pending : flushes_) {
    const bool hit =
        std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return pending.wanted.contains(key); });
    if (hit) calls.emplace_back(std::exchange(pending.done, nullptr), false);
  }
  std::erase_if(flushes_, [](const PendingFlush& pending) { return pending.done == nullptr; });
}

void CommitPlanner::WriteAgain(Time now) {
  if (write_again_at_ != Time::max()) return;
  write_again_at_ = now + options_.write_again_after;
  wake_at_ = std::min(wake_at_, write_again_at_);
}

void CommitPlanner::Abandon(Calls& calls) {
  for (auto& pending : flushes_) calls.emplace_back(std::move(pending.done), false);
  flushes_.clear();
}

void CommitPlanner::SetRetention(Duration retention, Time now) {
  options_.retention = retention;
  next_refresh_ = Time::max();
  for (auto& [name, subscription] : subscriptions_) {
    for (auto& [partition, entry] : subscription.entries) {
      entry.refresh_at = std::min(entry.refresh_at, RefreshTime(now, entry.age_known));
      next_refresh_ = std::min(next_refresh_, entry.refresh_at);
    }
  }
  wake_at_ = std::min(wake_at_, next_refresh_);
}

void CommitPlanner::NoteRefreshesDue(Time now) {
  if (now >= write_again_at_) {
    write_again_at_ = Time::max();
    next_refresh_ = now;
    for (auto& [name, subscription] : subscriptions_)
      for (auto& [partition, entry] : subscription.entries) entry.refresh_at = std::min(entry.refresh_at, now);
  }
  if (now < next_refresh_) return;
  next_refresh_ = Time::max();
  for (auto& [name, subscription] : subscriptions_) {
    for (const auto& [partition, entry] : subscription.entries) {
      if (entry.refresh_at <= now) {
        subscription.refresh = true;
        ready_.insert(name);
      } else {
        next_refresh_ = std::min(next_refresh_, entry.refresh_at);
      }
    }
  }
}

void CommitPlanner::Grow(Time now) {
  if (now < counted_at_ + 1s && counted_at_ != Time::min()) return;
  counted_at_ = now;
  std::size_t active = 0;
  for (const auto& [name, subscription] : subscriptions_)
    if (subscription.turn_at || (subscription.written_at && now - *subscription.written_at < kActiveFor)) ++active;
  const auto wanted = std::min<std::size_t>(
      (active + options_.subscriptions_per_client - 1) / std::max(1U, options_.subscriptions_per_client),
      options_.max_clients);
  if (wanted > clients_.size()) clients_.resize(wanted);
}

void CommitPlanner::Refill(Time now) {
  for (auto& client : clients_) {
    if (client.filled == Time::min()) {
      client.tokens = Burst();
    } else if (now > client.filled) {
      const double seconds = std::chrono::duration<double>(now - client.filled).count();
      client.tokens = std::min(Burst(), client.tokens + seconds * options_.requests_per_second);
    }
    client.filled = std::max(client.filled, now);
  }
}

std::vector<CommitPlanner::Batch> CommitPlanner::Take(Time now) {
  NoteRefreshesDue(now);
  Grow(now);
  Refill(now);
  wake_at_ = std::min(next_refresh_, write_again_at_);

  std::vector<Ready*> due;
  for (const auto& name : ready_) {
    auto& ready = *subscriptions_.find(name);
    const auto& subscription = ready.second;
    if (subscription.busy) continue;  // Done looks again
    const Time turn = subscription.flush || subscription.refresh ? now : subscription.turn_at.value_or(Time::max());
    const Time at = std::max(turn, subscription.not_before);
    if (at <= now)
      due.push_back(&ready);
    else
      wake_at_ = std::min(wake_at_, at);
  }
  // Flushes, then changes by age, then refreshes.
  std::sort(due.begin(), due.end(), [](const Ready* a, const Ready* b) {
    if (a->second.flush != b->second.flush) return a->second.flush;
    return a->second.oldest.value_or(Time::max()) < b->second.oldest.value_or(Time::max());
  });

  std::vector<Batch> batches;
  for (Ready* ready : due) {
    const auto index = static_cast<std::uint32_t>(std::hash<std::string>{}(ready->first) % clients_.size());
    auto& client = clients_[index];
    if (client.in_flight >= options_.in_flight_per_client) continue;  // Done looks again
    if (!ready->second.flush) {
      if (client.tokens < 1) {
        const auto wait = std::chrono::duration<double>((1 - client.tokens) / options_.requests_per_second);
        wake_at_ = std::min(wake_at_, now + std::max<Duration>(kShortestWait, std::chrono::ceil<Duration>(wait)));
        continue;
      }
      client.tokens -= 1;
    }
    auto batch = MakeBatch(*ready, index, now);
    if (batch.items.empty()) continue;  // what was due has been dropped
    ++client.in_flight;
    batches.push_back(std::move(batch));
  }
  return batches;
}

CommitPlanner::Batch CommitPlanner::MakeBatch(Ready& ready, std::uint32_t client, Time now) {
  auto& [name, subscription] = ready;
  Batch batch{name, client, {}};
  for (auto& [partition, entry] : subscription.entries) {
    // What is due soon goes along.
    const bool refresh = entry.refresh_at <= now + options_.retention / 100;
    if (!entry.changed_since && !entry.flush && !refresh) continue;
    batch.items.push_back({partition, entry.position, entry.version});
    entry.under_way = entry.changed_since.value_or(now);
    entry.changed_since.reset();
    entry.flush = false;
  }
  subscription.busy = !batch.items.empty();
  subscription.refresh = false;
  subscription.flush = false;
  subscription.turn_at.reset();
  subscription.oldest.reset();
  subscription.written_at = now;
  ready_.erase(name);
  return batch;
}

void CommitPlanner::Done(const Batch& batch, const std::vector<bool>& stored, Time now, Calls& calls) {
  auto& client = clients_[batch.client];
  if (client.in_flight > 0) --client.in_flight;
  wake_at_ = Time::min();  // a place is free
  const auto found = subscriptions_.find(batch.subscription);
  if (found == subscriptions_.end()) return;
  auto& subscription = found->second;
  subscription.busy = false;
  bool all = true;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    const auto& item = batch.items[i];
    const auto at = subscription.entries.find(item.partition);
    // Dropped meanwhile; noted anew, it has a later version and is not under way.
    if (at == subscription.entries.end() || !at->second.under_way) continue;
    auto& entry = at->second;
    const auto since = *std::exchange(entry.under_way, std::nullopt);
    if (i < stored.size() && stored[i]) {
      entry.stored = item.version;
      entry.age_known = true;
      entry.refresh_at = RefreshTime(now, true);
      next_refresh_ = std::min(next_refresh_, entry.refresh_at);
      if (entry.version == item.version) entry.flush = false;
    } else {
      all = false;
      entry.changed_since = Earlier(entry.changed_since, since);
      entry.flush = std::any_of(flushes_.begin(), flushes_.end(), [&](const PendingFlush& pending) {
        return pending.wanted.contains({batch.subscription, item.partition});
      });
    }
  }
  if (all) {
    subscription.failures = 0;
    subscription.not_before = Time::min();
  } else {
    const Duration wait = options_.first_retry * (1U << std::min(subscription.failures, 16U));
    subscription.not_before = now + std::min(wait, options_.last_retry);
    ++subscription.failures;
  }
  ReviewEntries(subscription);
  if (subscription.turn_at || subscription.flush) ready_.insert(batch.subscription);
  SettleFlushes(batch.subscription, calls);
  if (subscription.entries.empty()) {
    ready_.erase(batch.subscription);
    subscriptions_.erase(found);
  }
}

void CommitPlanner::ReviewEntries(Subscription& subscription) {
  subscription.oldest.reset();
  bool flush = false;
  for (const auto& [partition, entry] : subscription.entries) {
    subscription.oldest = Earlier(subscription.oldest, entry.changed_since);
    flush = flush || entry.flush;
  }
  subscription.flush = flush;
  if (subscription.entries.empty()) subscription.refresh = false;
  if (!subscription.oldest) {
    subscription.turn_at.reset();
  } else if (!subscription.turn_at) {
    subscription.turn_at = subscription.written_at.value_or(*subscription.oldest) + options_.interval;
  }
}

void CommitPlanner::SettleFlushes(const std::string& name, Calls& calls) {
  const auto& entries = subscriptions_.at(name).entries;
  for (auto& pending : flushes_) {
    for (auto wanted = pending.wanted.begin(); wanted != pending.wanted.end();) {
      const auto entry = wanted->first.subscription == name ? entries.find(wanted->first.partition) : entries.end();
      if (entry != entries.end() && entry->second.stored >= wanted->second)
        wanted = pending.wanted.erase(wanted);
      else
        ++wanted;
    }
    if (pending.wanted.empty()) calls.emplace_back(std::exchange(pending.done, nullptr), true);
  }
  std::erase_if(flushes_, [](const PendingFlush& pending) { return pending.done == nullptr; });
}

std::pair<std::size_t, std::optional<CommitPlanner::Time>> CommitPlanner::Waiting() const {
  std::size_t count = 0;
  std::optional<Time> oldest;
  for (const auto& [name, subscription] : subscriptions_) {
    for (const auto& [partition, entry] : subscription.entries) {
      const auto since = entry.version == entry.stored ? std::nullopt : Earlier(entry.changed_since, entry.under_way);
      if (!since) continue;
      ++count;
      oldest = Earlier(oldest, since);
    }
  }
  return {count, oldest};
}

}  // namespace posthorn::kafka
