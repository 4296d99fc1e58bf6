#pragma once

namespace CLI {
class App;
}

namespace posthorn::cli {

/// Adds `simulate`: how a fleet shares its max-rate, under virtual time. `exit_code` is set when it has run.
void AddSimulateCommand(CLI::App& app, int& exit_code);

}  // namespace posthorn::cli
