#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/simulation/outcome.h"

namespace posthorn::simulation {

/// What came of a run, in numbers.
struct Summary {
  struct AfterEvent {
    std::size_t second = 0;
    std::string event;  // empty: the start
    /// Full use: at least 95 % of the total is sent, or nobody who runs has a lag. Windows from the event's own until
    /// all are at full use up to the next event; nullopt: never.
    std::optional<std::size_t> windows_to_full_use;
  };
  struct Above {
    std::size_t second = 0;
    std::int64_t sent = 0;
    std::int64_t total = 0;
  };

  std::size_t seconds_above_total = 0;
  std::optional<Above> worst;
  std::int64_t sent = 0;
  std::int64_t rejected = 0;
  std::size_t seconds_with_lag = 0;             // that end with a lag at a worker that runs
  std::optional<double> use_while_lag;          // part of the total that is sent in these seconds
  std::optional<std::size_t> seconds_to_drain;  // since the last event, all lag; nullopt: some is left
  std::vector<AfterEvent> after_events;
};

Summary Summarise(const Outcome& outcome);

/// As JSON, one key a line.
std::string ToJson(const Summary& summary, const Scenario& scenario, const Outcome& outcome);

}  // namespace posthorn::simulation
