#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "worker/simulation/scenario.h"

namespace posthorn::simulation {

/// What one worker did in one second.
struct Cell {
  std::int64_t sent = 0;
  std::int64_t rejected = 0;
  std::int64_t lag = 0;  // messages that wait, at its end
  double share = 0;      // the partial limit, at its end
  bool running = false;  // at its end
};

/// A run: a cell for each second and worker, and what was allowed.
struct Outcome {
  struct Mark {
    std::size_t second = 0;
    std::string text;
  };

  Strategy strategy = Strategy::kAdaptive;
  std::vector<std::string> workers;
  Label first = 0;  // of second 0
  std::size_t seconds = 0;
  std::vector<Cell> cells;            // of second 0, of second 1, ...; workers in their order
  std::vector<std::int64_t> total;    // T of each second, by the newest max-rate at its start
  std::vector<std::int64_t> most;     // the highest T that anybody went by in it, or can have gone by
  std::vector<Nanoseconds> planning;  // CPU time of the coordinator in each second; empty: none, or not measured
  std::vector<Mark> events;

  [[nodiscard]] const Cell& At(std::size_t second, std::size_t worker) const {
    return cells[second * workers.size() + worker];
  }
  [[nodiscard]] std::int64_t Sent(std::size_t second) const;
  [[nodiscard]] std::int64_t Rejected(std::size_t second) const;
  [[nodiscard]] std::int64_t Lag(std::size_t second) const;
  /// Of the lag, what waits at workers that run: for a permit, or for room at the endpoint.
  [[nodiscard]] std::int64_t Waiting(std::size_t second) const;
};

/// One line for each label and worker: label, second, worker, sent, partial_limit, lag, rejected. And per label one for
/// `*`, all of them, whose partial_limit is the total.
void WriteCsv(const Outcome& outcome, std::ostream& out);

}  // namespace posthorn::simulation
