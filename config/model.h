#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/source_settings.h"
#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::config {

using Milliseconds = std::chrono::milliseconds;

enum class Burst : std::uint8_t { kSmooth, kWindow };
enum class Start : std::uint8_t { kEarliest, kLatest };
enum class Ordering : std::uint8_t { kNone, kKey, kPartition };
enum class TtlFrom : std::uint8_t { kRead, kPublished };
enum class Jitter : std::uint8_t { kFull, kNone };
enum class HttpVersion : std::uint8_t { k1_1, k2 };
enum class Membership : std::uint8_t { kStatic, kDynamic };
enum class Shares : std::uint8_t { kStatic, kAdaptive };

struct Backoff {
  Milliseconds initial{1000};
  double multiplier = 2;
  Milliseconds max{60'000};
  Jitter jitter = Jitter::kFull;
  bool operator==(const Backoff&) const = default;
};

struct Tls {
  std::string ca{};           // file; empty: the system's
  std::string certificate{};  // file
  std::string key{};          // file; secret
  std::string server_name{};  // empty: the endpoint's host
  bool operator==(const Tls&) const = default;
};

/// A topic, an endpoint and a policy, under a unique name. Defaults are those of the option table.
struct Subscription {
  std::string name;
  std::string topic;
  std::string endpoint;
  std::string limit;  // name of its limit in Snapshot::limits; empty: unlimited
  Start start = Start::kEarliest;
  bool paused = false;
  std::uint32_t max_in_flight = 64;
  Ordering ordering = Ordering::kNone;
  Milliseconds timeout{5000};
  Milliseconds ttl{3'600'000};
  TtlFrom ttl_from = TtlFrom::kRead;
  std::optional<std::uint32_t> max_attempts;
  Backoff backoff;
  Milliseconds retry_after_max{600'000};
  bool retry_client_errors = false;
  std::vector<std::pair<std::string, std::string>> headers;  // values may be secrets
  std::vector<std::string> forward_headers;                  // patterns: exact names, or a prefix before one final *
  bool dead_letters = true;
  HttpVersion http = HttpVersion::k1_1;
  Tls tls;
  std::vector<std::string> secret_headers;  // names of the fixed headers whose values are never shown
  bool operator==(const Subscription&) const = default;
};

/// The named thing that has a max-rate. A subscription's own `max_rate` makes a limit of the subscription's name.
struct Limit {
  std::string name;
  ratelimit::MaxRate max_rate;
  Burst burst = Burst::kSmooth;
  bool operator==(const Limit&) const = default;
};

/// One accepted revision of what the fleet delivers. Immutable; swapped as a whole.
struct Snapshot {
  std::string digest;                      // of the documents' bytes, short hex; compared for equality only
  std::string source_revision;             // the source's own number, empty where it has none
  std::optional<std::uint32_t> instances;  // N of total/N; unset: shares follow the partitions owned
  /// In force from this window of the wall clock on, a whole second. Past or unset: at once.
  std::optional<ratelimit::WallTime> effective_at;
  std::vector<Limit> limits;                // sorted by name
  std::vector<Subscription> subscriptions;  // sorted by name
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// The deployment file: read once at start.
struct Deployment {
  std::string fleet;
  std::string instance;               // empty: none was given
  std::optional<std::uint32_t> slot;  // trailing number of `instance`
  Membership membership = Membership::kDynamic;
  std::map<std::string, std::string> kafka;  // passed on to librdkafka; values may be secrets
  std::string admin;                         // host:port, empty: none
  SourceSettings source;                     // of the subscriptions
  std::uint32_t shards = 0;                  // 0: one per core
  std::uint64_t memory = 256ull << 20;       // bytes
  Milliseconds shutdown_timeout{30'000};
  Shares shares = Shares::kAdaptive;
  std::map<std::string, std::string> control_kafka;  // of the control topics; empty: as `kafka`; values may be secrets
  std::uint32_t control_partitions = 4;              // of the control topics, where they are made
  std::optional<std::uint32_t> control_replication;
  std::string log_level = "info";
  bool log_json = false;
  std::uint32_t own_readers = 4;                   // per partition
  std::uint32_t commit_requests_per_second = 150;  // per handle of the offset store
  Milliseconds max_clock_offset{100};
  std::uint32_t max_unfinished = 10'000;  // messages between a lane's oldest unfinished and its newest one
  std::uint32_t retry_partitions = 3;     // of the retry topic, where it is made
  std::optional<std::uint32_t> retry_replication;
  Milliseconds retry_retention{14 * 86'400'000};
  std::vector<std::string> secret_kafka;  // names of the Kafka settings whose values are never shown, of all maps
  bool operator==(const Deployment&) const = default;
};

}  // namespace posthorn::config
