#pragma once

#include <string>
#include <string_view>

#include "config/load.h"
#include "worker/simulation/scenario.h"

namespace posthorn::simulation {

/// Reads a scenario (YAML or JSON); `file` is its name in faults.
///
/// Errors  Faults only, never an exception: all of them, each with place, value and rule.
config::Loaded<Scenario> LoadScenario(std::string_view file, std::string_view text);

/// Every key of a scenario, for `posthorn simulate --help`.
std::string ScenarioHelp();

}  // namespace posthorn::simulation
