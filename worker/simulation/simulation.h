#pragma once

#include "worker/simulation/outcome.h"
#include "worker/simulation/scenario.h"
#include "worker/simulation/share_strategy.h"

namespace posthorn::simulation {

/// Runs a scenario from start to end in virtual time.
///
/// The same scenario and strategy give the same outcome, to the last message; but for `planning`, which is measured
/// where `cpu_time` is given. Cost    A few hundred nanoseconds per worker and tick, and some 20 ns per message. Memory
/// 40 bytes per worker and second.
Outcome Run(const Scenario& scenario, Strategy strategy, const CpuTime& cpu_time = nullptr);

}  // namespace posthorn::simulation
