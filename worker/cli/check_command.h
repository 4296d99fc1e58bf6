#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "config/load.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct CheckArguments {
  std::vector<std::string> files = {};      // subscriptions files, directories of them, or a deployment file
  std::string config = {};                  // a deployment file, checked together with the subscriptions it names
  std::vector<std::string> overrides = {};  // `--set` of the deployment
};

/// `posthorn check`: validates, prints the effective configuration with secrets masked to `out`, every fault to `err`.
///
/// Returns 0: valid. 1: faults. 2: wrong usage.
int RunCheck(const CheckArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
             std::ostream& err);

/// Adds the subcommand `check` to `app`; running it leaves its result in `exit_code`, which outlives the app.
void AddCheckCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
