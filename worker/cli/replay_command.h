#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

#include "config/load.h"
#include "worker/cli/fleet_files.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct ReplayArguments {
  FleetFilesArguments files;
  std::string subscription;
  std::string from;                  // a time
  std::string to;                    // a time, or P:O
  std::vector<std::string> offsets;  // P:O
  bool dry_run = false;
  std::string patience = "60s";
};

/// Asks the running workers to take a subscription back, waits for their answers and prints one line per partition;
/// when the fleet has no worker it moves the stored positions itself. Returns the exit code: 0 done, 1 cannot (or not
/// everywhere) and why on `err`, 2 wrong usage.
int RunReplay(const ReplayArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
              std::ostream& err);

void AddReplayCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
