#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::ratelimit {

enum class Burst : std::uint8_t {
  kSmooth,  // permits open along the Envelope
  kAtOnce,  // all of them at the window's start
};

/// The worker is slot `slot` of `instances`. A slot not below `instances` (or no instances at all) has no share.
struct SlotDealing {
  std::uint32_t slot = 0;
  std::uint32_t instances = 0;
  bool operator==(const SlotDealing&) const = default;
};

/// The partitions are the slots, over all topics of the limit; the worker holds those it owns. Every worker must know
/// the same counts and weights (see Timing::session_timeout), so give a plan when the counts of all topics are known,
/// not one by one.
struct PartitionDealing {
  struct Topic {
    std::string name;
    std::uint32_t partitions = 0;
    std::vector<std::uint32_t> owned;  // numbers of partitions of this topic
    std::uint32_t weight = 1;          // slots of each partition, dealt in turns with those of the others
    bool operator==(const Topic&) const = default;
  };
  std::vector<Topic> topics;  // each name once; the order does not matter
  bool operator==(const PartitionDealing&) const = default;
};

/// The worker's part is what a coordinator grants it (leases/README.md), and without a lease that of its slot, where
/// the fleet has slots. A plan of no higher revision than the one before changes neither rate nor slots.
struct LeaseDealing {
  std::uint32_t slots = 0;  // instances by number; 0: there is none
  std::uint64_t revision = 0;
  bool operator==(const LeaseDealing&) const = default;
};

/// What a worker knows of one limit: the fleet's rate, and what part of it is this worker's.
struct Plan {
  using Dealing = std::variant<SlotDealing, PartitionDealing, LeaseDealing>;
  /// What holds instead from label `from` on, told to all workers beforehand: rate and dealing change in that window.
  struct Next {
    Label from = 0;
    MaxRate rate;
    Burst burst = Burst::kSmooth;
    Dealing dealing;  // by lease where that of the plan is, and only there
    bool operator==(const Next&) const = default;
  };

  MaxRate rate;
  Burst burst = Burst::kSmooth;
  Dealing dealing;
  std::optional<Next> next = std::nullopt;

  [[nodiscard]] const MaxRate& RateAt(Label w) const { return next && w >= next->from ? next->rate : rate; }
  [[nodiscard]] Burst BurstAt(Label w) const { return next && w >= next->from ? next->burst : burst; }
  bool operator==(const Plan&) const = default;
};

/// How far apart the workers of a fleet can be. The guarantees hold as long as these bounds do.
struct Timing {
  /// Two workers' clocks differ by less than this.
  Nanoseconds max_clock_offset = std::chrono::milliseconds(100);
  /// All workers have learned a change of a rate, of N or of a slot within `settle - max_clock_offset` of the first
  /// one.
  Nanoseconds settle = kWindow;
  /// All workers have learned a changed number of partitions within this of the first one (the group's session timeout:
  /// a member that has not taken part in a rebalance for longer owns nothing any more).
  Nanoseconds session_timeout = std::chrono::seconds(45);
};

}  // namespace posthorn::ratelimit
