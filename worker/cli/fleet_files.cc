#include "worker/cli/fleet_files.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ostream>
#include <stop_token>
#include <variant>

#include "config/fault.h"
#include "config/rfc3339.h"
#include "config/sources/last_good.h"
#include "worker/cli/config_source.h"

namespace posthorn::cli {
namespace {

/// What the source has; unset: why was said.
std::optional<config::Snapshot> Newest(config::Source& source, const config::Capabilities& capabilities,
                                       std::ostream& err) {
  constexpr std::chrono::seconds kQuestionPatience{5};  // with what changes while it is read
  const config::Outcome outcome = source.Next("", kQuestionPatience, std::stop_token());
  const auto* changed = std::get_if<config::Changed>(&outcome);
  if (changed == nullptr) {
    const auto* failed = std::get_if<config::Failed>(&outcome);
    err << source.Describe() << ": " << (failed != nullptr ? failed->why : "no answer in time, or it changes") << '\n';
    return std::nullopt;
  }
  auto loaded = config::LoadSubscriptions(changed->snapshot.files, capabilities);
  err << config::ToString(loaded.faults);
  return std::move(loaded.value);
}

/// What a worker on this machine, or one that shares the `cache`, had in force last.
std::optional<config::Snapshot> Kept(const config::Deployment& deployment, const config::Capabilities& capabilities) {
  if (deployment.source.cache.empty()) return std::nullopt;
  const auto kept = config::LastGood(deployment.source.cache, deployment.fleet).Read().in_force;
  if (!kept || kept->source != config::ToString(deployment.source)) return std::nullopt;
  return config::LoadSubscriptions(kept->files, capabilities).value;
}

std::optional<config::Snapshot> InForce(const config::Deployment& deployment, config::Source& source,
                                        const config::Capabilities& capabilities, std::ostream& err) {
  auto newest = Newest(source, capabilities, err);
  const std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  const bool to_come =
      newest && newest->effective_at && *newest->effective_at > ratelimit::WallTime(now.time_since_epoch());
  if (newest && !to_come) return newest;
  if (to_come) {
    err << source.Describe() << ": its revision is in force from " << config::FormatRfc3339(*newest->effective_at)
        << " on\n";
  }
  auto kept = Kept(deployment, capabilities);
  if (!kept) return newest;
  err << "the last revision that was in force, from `cache`, is used\n";
  return kept;
}

}  // namespace

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
  std::string why;
  const auto source = MakeConfigSource(*deployment.value, &why);
  if (source == nullptr) {
    err << why << '\n';
    return std::nullopt;
  }
  auto subscriptions = InForce(*deployment.value, *source, capabilities, err);
  if (!subscriptions) return std::nullopt;
  return FleetFiles{std::move(*deployment.value), std::move(*subscriptions)};
}

}  // namespace posthorn::cli
