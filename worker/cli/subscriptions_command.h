#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "worker/cli/fleet_files.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct SubscriptionsArguments {
  enum class Action { kList, kGet, kPut, kDelete, kEdit, kHistory } action = Action::kList;
  FleetFilesArguments files;
  std::vector<std::string> paths;      // put
  std::string name;                    // of a document
  std::string expect;                  // revision that must be in force
  std::string effective_in;            // duration
  std::optional<std::int64_t> offset;  // get: that of an earlier record
  std::optional<int> replication;      // put: where the topic is made
  bool json = false;
  bool dry_run = false;
};

/// The documents of the Kafka topic that the deployment names as its source.
/// Returns the exit code: 0 done, 1 cannot and why on `err`, 2 wrong usage.
int RunSubscriptions(const SubscriptionsArguments& arguments, const config::Capabilities& capabilities,
                     std::ostream& out, std::ostream& err);

void AddSubscriptionsCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
