#include "worker/cli/schema_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "config/schema.h"

namespace posthorn::cli {

void AddSchemaCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("schema", "Prints the JSON Schema of a configuration file, for editors");
  auto which = std::make_shared<std::string>("subscriptions");
  command->add_option("FILE", *which, "Which one: subscriptions (the default) or deployment")
      ->check(CLI::IsMember({"subscriptions", "deployment"}));
  command->footer(
      "Editors with the YAML language server complete and check a file that begins with the schema's place:\n"
      "  posthorn schema > subscriptions.schema.json\n"
      "  # yaml-language-server: $schema=subscriptions.schema.json\n"
      "What a schema cannot say (`posthorn check --help` lists every rule) only `posthorn check` finds.\n"
      "Exit code: 0 done, 2 wrong usage.");
  command->callback([which, &exit_code] {
    std::cout << config::JsonSchema(*which == "deployment" ? config::Document::kDeployment
                                                           : config::Document::kSubscriptions);
    exit_code = 0;
  });
}

}  // namespace posthorn::cli
