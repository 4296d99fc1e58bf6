#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

/// The deployment file and the subscriptions it names, for commands that speak to a fleet from outside.
struct FleetFiles {
  config::Deployment deployment;
  config::Snapshot subscriptions;
  [[nodiscard]] const config::Subscription* Find(const std::string& name) const;
};

struct FleetFilesArguments {
  std::string config;
  std::vector<std::string> overrides;
};
/// Adds `--config` and `--set`.
void AddFleetFilesOptions(CLI::App& command, FleetFilesArguments& arguments);

/// The subscriptions are those in force, as far as that can be told: where the source gives none (it is away, or its
/// revision is faulty or yet to come), the ones in the deployment's `cache`, which `err` tells; without those the ones
/// to come.
///
/// Unset: every fault is in `err`.
[[nodiscard]] std::optional<FleetFiles> LoadFleetFiles(const FleetFilesArguments& arguments,
                                                       const config::Capabilities& capabilities, std::ostream& err);

}  // namespace posthorn::cli
