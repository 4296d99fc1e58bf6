#pragma once

#include <string>

#include "worker/simulation/outcome.h"

namespace posthorn::simulation {

/// One picture (SVG) of a run: output rate of each worker, all of them together against the limit, partial limits, and
/// lag, over the seconds. With more than twelve workers those that sent most have a line of their own, the others one
/// for their mean.
std::string DrawCharts(const Outcome& outcome, const std::string& title);

}  // namespace posthorn::simulation
