#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "worker/simulation/random.h"
#include "worker/simulation/scenario.h"

namespace posthorn::simulation {

/// CPU time that the calling thread has used so far. A run takes it from outside, for what planning costs alone.
using CpuTime = std::function<Nanoseconds()>;

/// What a worker could do now.
struct Load {
  std::int64_t backlog = 0;  // messages that wait
  std::int64_t room = 0;     // requests that may still be started
  std::int64_t pace = 0;     // attempts per window, lately

  [[nodiscard]] std::int64_t Ready() const { return std::min(backlog, room); }
  /// Attempts it could start in the next window. With all its requests under way: what it gets done.
  [[nodiscard]] std::int64_t Demand() const {
    const std::int64_t all = backlog + pace;
    return room > 0 ? all : std::min(all, pace + pace / 8 + 1);
  }
};

/// What became of it.
struct Started {
  std::int64_t sent = 0;
  std::int64_t rejected = 0;  // of the backlog; given up
  Label label = 0;            // the window that `sent` counts in
};

/// How the workers of a fleet come to their parts of the max-rate: the whole of it, all workers and what they send each
/// other.
///
/// Time  True time, never back; each worker is told by its own clock.
class ShareStrategy {
 public:
  virtual ~ShareStrategy() = default;

  /// A process of worker `i` starts, or ends: in good order, or not.
  virtual void Start(std::size_t i, WallTime now) = 0;
  virtual void Stop(std::size_t i, bool graceful, WallTime now) = 0;

  /// Everybody learns of it within the scenario's config_delay.
  virtual void SetMaxRate(const MaxRate& rate, WallTime now) = 0;
  virtual void SetNetwork(const Network& /*network*/) {}
  virtual void KillCoordinator(WallTime /*now*/) {}

  /// Everything that happens up to `now` without a worker's doing.
  virtual void Advance(WallTime now) = 0;

  /// Worker `i`, which runs, starts what it may.
  virtual Started Take(std::size_t i, const Load& load, WallTime now) = 0;

  /// The partial limit of worker `i` in the running window, in permits.
  virtual double Share(std::size_t i, WallTime now) = 0;

  /// The highest total that somebody went by when he shared window `w` out. nullopt: those of the max-rates that
  /// somebody knew of in that window, no others.
  [[nodiscard]] virtual std::optional<std::int64_t> SharedOut(Label /*w*/) const { return std::nullopt; }

  /// CPU time in which a coordinator has heard reports and planned; nullopt: there is none, or it is not measured.
  [[nodiscard]] virtual std::optional<Nanoseconds> PlanningTime() const { return std::nullopt; }
};

/// Nothing runs yet; its time begins at `begin`. Keeps references to `scenario` and `random`. `cpu_time` may be empty.
std::unique_ptr<ShareStrategy> MakeStrategy(Strategy strategy, const Scenario& scenario, Random& random, WallTime begin,
                                            const CpuTime& cpu_time);

}  // namespace posthorn::simulation
