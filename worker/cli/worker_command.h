#pragma once

#include "config/load.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

/// Adds `worker`: one worker of the fleet, until SIGTERM, SIGINT or SIGUSR1 (for good). Exit code 0 after a graceful
/// stop, 1 when it cannot run, 2 on wrong usage.
void AddWorkerCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
