#pragma once

namespace CLI {
class App;
}

namespace posthorn::cli {

/// Adds `sink`: a receiver for tries and tests that answers, delays, fails and counts as told. Runs until SIGINT or
/// SIGTERM. `exit_code` is set when it has run.
void AddSinkCommand(CLI::App& app, int& exit_code);

}  // namespace posthorn::cli
