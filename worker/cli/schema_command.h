#pragma once

namespace CLI {
class App;
}

namespace posthorn::cli {

/// `posthorn schema`: the JSON Schema of one of the two files, on standard output.
void AddSchemaCommand(CLI::App& app, int& exit_code);

}  // namespace posthorn::cli
