#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "config/load.h"
#include "worker/cli/fleet_files.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct DeadLettersArguments {
  enum class Action { kList, kShow, kRedeliver } action = Action::kList;
  FleetFilesArguments files;
  std::string subscription;
  std::string reason;
  std::string since;
  std::string until;
  std::vector<std::string> places;  // P:O in the dead-letter topic
  bool json = false;
  bool dry_run = false;
  bool everything = false;
};

/// Reads `<fleet>.dead-letters` from its beginning to where it ends now.
/// Returns the exit code: 0 done, 1 cannot and why on `err`, 2 wrong usage.
int RunDeadLetters(const DeadLettersArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
                   std::ostream& err);

void AddDeadLettersCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
