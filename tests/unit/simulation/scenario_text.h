#pragma once

#include <stdexcept>
#include <string>

#include "worker/simulation/load_scenario.h"

namespace posthorn::simulation::testing {

inline Scenario Parse(const std::string& yaml) {
  auto loaded = LoadScenario("test.yaml", yaml);
  if (!loaded) throw std::invalid_argument(config::ToString(loaded.faults));
  return std::move(*loaded.value);
}

}  // namespace posthorn::simulation::testing
