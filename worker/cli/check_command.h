#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/sources/source.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct CheckArguments {
  std::vector<std::string> files = {};      // subscriptions files, directories of them, or a deployment file
  std::string config = {};                  // a deployment file, checked together with the subscriptions it names
  std::vector<std::string> overrides = {};  // `--set` of the deployment
  bool from = false;                        // asks the source, that of the deployment or
  std::vector<std::string> source = {};     // its kind and `key=value` each
  bool diff = false;                        // what would change, against the worker at
  std::string worker = {};                  // this admin address, or whatever can be asked
};

/// What only a running fleet can tell. Where one is null, nobody is asked.
struct CheckServices {
  std::function<std::unique_ptr<config::Source>(const config::Deployment&, std::string* why)> make_source = nullptr;
  std::function<std::optional<std::string>(const std::string& address, const std::string& path)> ask_worker = nullptr;
};

/// `posthorn check`: validates, prints the effective configuration with secrets masked to `out`, or with `diff` what
/// would change; every fault to `err`.
///
/// Returns 0: valid. 1: faults. 2: wrong usage.
int RunCheck(const CheckArguments& arguments, const config::Capabilities& capabilities, const CheckServices& services,
             std::ostream& out, std::ostream& err);

/// Adds the subcommand `check` to `app`; running it leaves its result in `exit_code`, which outlives the app.
void AddCheckCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities,
                     const CheckServices& services);

}  // namespace posthorn::cli
