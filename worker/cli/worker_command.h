#pragma once

#include "config/load.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

/// Adds `worker`: one worker of the fleet, until SIGTERM or SIGINT. Exit code 0 after a graceful stop, 1 when it cannot
/// run or was fenced by a namesake, 2 on wrong usage.
void AddWorkerCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
