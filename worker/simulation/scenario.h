#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::simulation {

using ratelimit::Label;
using ratelimit::MaxRate;
using ratelimit::Nanoseconds;
using ratelimit::WallTime;

enum class Strategy : std::uint8_t { kStatic, kAdaptive, kHermes, kFraction };

/// Their words, in the order above.
inline constexpr std::string_view kStrategyNames[] = {"static", "adaptive", "hermes", "fraction"};

inline std::string_view NameOf(Strategy strategy) { return kStrategyNames[static_cast<std::size_t>(strategy)]; }

/// One message on its way between two processes.
struct Network {
  Nanoseconds delay = std::chrono::milliseconds(5);        // at least
  Nanoseconds delay_most = std::chrono::milliseconds(20);  // evenly up to
  double loss = 0;                                         // of all messages
  double repeated = 0;                                     // arrive twice
};

/// A worker, and what there is to deliver at it. Its partitions stay with it while it is down.
struct Worker {
  std::string name;
  std::string group;
  double arrivals = 0;       // messages per second
  std::int64_t backlog = 0;  // messages at the start
  Nanoseconds endpoint_time = std::chrono::milliseconds(20);
  std::int64_t max_in_flight = 1000;
  Nanoseconds clock{0};  // off by this
};

/// What changes at a time. Everything that is not set stays.
struct Event {
  Nanoseconds at{0};
  std::vector<std::size_t> workers;  // by index; for the next block
  enum class Process : std::uint8_t { kAsItIs, kStop, kKill, kStart };
  Process process = Process::kAsItIs;
  std::optional<double> arrivals;
  std::int64_t backlog = 0;  // so many more
  std::optional<Nanoseconds> endpoint_time;

  std::optional<MaxRate> max_rate;
  bool kill_coordinator = false;
  std::optional<Network> network;

  std::string text;  // as shown in charts and the summary
};

/// A fleet, its load and its day: everything a run depends on.
struct Scenario {
  std::string name;
  std::string about;
  std::uint64_t seed = 1;
  Strategy strategy = Strategy::kAdaptive;
  Nanoseconds duration = std::chrono::seconds(60);
  Nanoseconds warm_up = std::chrono::seconds(5);  // before second 0, not shown
  Nanoseconds tick = std::chrono::milliseconds(10);

  MaxRate max_rate;
  bool smooth = true;
  Nanoseconds config_delay = std::chrono::milliseconds(500);  // everybody has learned a new max-rate within
  Nanoseconds clock_offset{0};                                // clocks are off by up to this, either way
  Network network;

  // adaptive
  int lease = 10;  // windows
  bool fall_back_to_slots = false;
  Nanoseconds takeover = std::chrono::seconds(6);          // from a coordinator's death until the next one claims
  Nanoseconds plan_every = std::chrono::milliseconds(20);  // at most

  std::vector<Worker> workers;
  std::vector<Event> events;  // by time
};

}  // namespace posthorn::simulation
