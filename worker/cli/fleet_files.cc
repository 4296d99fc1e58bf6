#include "worker/cli/fleet_files.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ostream>
#include <stop_token>
#include <variant>

#include "config/fault.h"
#include "config/sources/file_source.h"

namespace posthorn::cli {

const config::Subscription* FleetFiles::Find(const std::string& name) const {
  const auto& all = subscriptions.subscriptions;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void AddFleetFilesOptions(CLI::App& command, FleetFilesArguments& arguments) {
  command.add_option("--config,-c", arguments.config, "The fleet's deployment file, posthorn.yaml")->required();
  command.add_option("--set", arguments.overrides, "key=value over the deployment file, as often as needed")
      ->allow_extra_args(false);
}

std::optional<FleetFiles> LoadFleetFiles(const FleetFilesArguments& arguments, const config::Capabilities& capabilities,
                                         std::ostream& err) {
  auto deployment = config::LoadDeployment(arguments.config, arguments.overrides);
  if (!deployment) {
    err << config::ToString(deployment.faults);
    return std::nullopt;
  }
  config::FileSource source(deployment.value->subscriptions_file, {.inotify = false});
  constexpr std::chrono::seconds kPatience{5};  // with a file that changes while it is read
  const config::Outcome outcome = source.Next("", kPatience, std::stop_token());
  const auto* changed = std::get_if<config::Changed>(&outcome);
  if (changed == nullptr) {
    const auto* failed = std::get_if<config::Failed>(&outcome);
    err << (failed != nullptr ? failed->why : deployment.value->subscriptions_file + ": changes while it is read")
        << '\n';
    return std::nullopt;
  }
  auto subscriptions = config::LoadSubscriptions(changed->snapshot.files, capabilities);
  if (!subscriptions) {
    err << config::ToString(subscriptions.faults);
    return std::nullopt;
  }
  return FleetFiles{std::move(*deployment.value), std::move(*subscriptions.value)};
}

}  // namespace posthorn::cli
