#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/offset_store.h"

namespace posthorn::kafka {

/// Decides what the offset store writes when: pure bookkeeping, given the time.
///
/// A change goes out at its subscription's turn (`interval` after the subscription's last write, now when urgent),
/// together with all other changes of the subscription in one request; a subscription has one request under way at a
/// time. Each client takes `requests_per_second`, at most a tenth of them in one go, the longest waiting first: turns
/// come later by themselves when very many subscriptions change. Flushes go before everything and are not held back.
/// Positions that do not change are written again at a tenth of the brokers' retention; those whose age nobody knows
/// (noted with `changed` false) within 10 minutes at the latest, at a random time. WriteAgain has all of them written
/// once more.
///
/// Threads  None, no lock: the caller's.
/// Cost     Update: two map look-ups. Take: looks at the subscriptions that have something to write.
class CommitPlanner {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  using Key = delivery::OffsetStore::Key;
  struct Options {
    std::uint32_t requests_per_second = 150;
    Duration interval = std::chrono::seconds(1);
    Duration retention = std::chrono::hours(24 * 7);
    std::uint32_t max_clients = 8;
    std::uint32_t subscriptions_per_client = 100;
    std::uint32_t in_flight_per_client = 64;
    Duration first_retry = std::chrono::milliseconds(100);
    Duration last_retry = std::chrono::seconds(5);
    Duration write_again_after = std::chrono::seconds(3);
  };
  struct Item {
    delivery::TopicPartition partition;
    delivery::Position position;
    std::uint64_t version = 0;
  };
  /// One request.
  struct Batch {
    std::string subscription;
    std::uint32_t client = 0;  // 0 .. clients() - 1
    std::vector<Item> items;
  };
  /// Flushes that have ended, with their result: to be called once the caller has released its lock.
  using Calls = std::vector<std::pair<std::function<void(bool)>, bool>>;

  CommitPlanner(Options options, std::uint64_t seed) : options_(options), random_(seed) {}

  void Update(const Key& key, delivery::Position position, bool urgent, bool changed, Time now);
  void Flush(const std::vector<Key>& keys, std::function<void(bool)> done, Calls& calls);
  void Drop(const std::vector<Key>& keys, Calls& calls);
  /// Everything noted is written once more, `write_again_after` from `now`, or from an earlier call still to be served.
  void WriteAgain(Time now);
  /// Ends every flush with false.
  void Abandon(Calls& calls);
  void SetRetention(Duration retention, Time now);

  /// The requests to send at `now`, none of them empty. Their subscriptions are busy until Done.
  std::vector<Batch> Take(Time now);
  /// When Take will have something next, as far as is known; Time::max() when nothing is noted.
  [[nodiscard]] Time wake_at() const { return wake_at_; }
  /// The answer: for each item whether it is stored.
  void Done(const Batch& batch, const std::vector<bool>& stored, Time now, Calls& calls);

  /// How many clients the requests are spread over: grows with the subscriptions that change, never shrinks.
  [[nodiscard]] std::uint32_t clients() const { return static_cast<std::uint32_t>(clients_.size()); }
  /// Positions changed and not stored, and since when the oldest of them.
  [[nodiscard]] std::pair<std::size_t, std::optional<Time>> Waiting() const;

 private:
  struct Entry {
    delivery::Position position;
    std::uint64_t version = 0;          // of `position`; versions are never used twice
    std::uint64_t stored = 0;           // newest version known to be stored
    std::optional<Time> changed_since;  // not stored, not under way
    std::optional<Time> under_way;      // its changed_since, while a request carries it
    bool flush = false;                 // wanted by a flush, not under way
    Time refresh_at = Time::max();
    bool age_known = false;
  };
  struct Subscription {
    std::map<delivery::TopicPartition, Entry> entries;
    std::optional<Time> turn_at;  // of its changes; unset: none
    std::optional<Time> oldest;   // of its changes
    std::optional<Time> written_at;
    bool flush = false;
    bool refresh = false;
    bool busy = false;
    std::uint32_t failures = 0;
    Time not_before = Time::min();  // after a failure
  };
  struct Client {
    double tokens = 0;
    Time filled = Time::min();
    std::uint32_t in_flight = 0;
  };
  struct PendingFlush {
    std::map<Key, std::uint64_t> wanted;  // the version that must be stored
    std::function<void(bool)> done;
  };
  using Ready = std::pair<const std::string, Subscription>;

  [[nodiscard]] Time TurnOf(const Subscription& subscription, bool urgent, Time now) const;
  void NoteRefreshesDue(Time now);
  void Grow(Time now);
  void Refill(Time now);
  [[nodiscard]] double Burst() const { return std::max(1.0, options_.requests_per_second / 10.0); }
  Batch MakeBatch(Ready& subscription, std::uint32_t client, Time now);
  void ReviewEntries(Subscription& subscription);
  void SettleFlushes(const std::string& subscription, Calls& calls);
  Time RefreshTime(Time now, bool age_known);

  Options options_;
  std::mt19937_64 random_;
  std::map<std::string, Subscription> subscriptions_;
  std::set<std::string> ready_;  // those with changes, flushes or refreshes to write
  std::vector<Client> clients_{1};
  std::vector<PendingFlush> flushes_;
  std::uint64_t versions_ = 0;
  Time wake_at_ = Time::max();
  Time next_refresh_ = Time::max();
  Time write_again_at_ = Time::max();
  Time counted_at_ = Time::min();
};

}  // namespace posthorn::kafka
