#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "worker/cli/admin_client.h"
#include "worker/cli/check_command.h"
#include "worker/cli/config_source.h"
#include "worker/cli/dead_letters_command.h"
#include "worker/cli/demo_command.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/import_command.h"
#include "worker/cli/replay_command.h"
#include "worker/cli/schema_command.h"
#include "worker/cli/simulate_command.h"
#include "worker/cli/sink_command.h"
#include "worker/cli/subscriptions_command.h"
#include "worker/cli/worker_command.h"
#include "worker/http/libcurl_support.h"
#include "worker/kafka/abandoned.h"

int main(int argc, char** argv) {
  posthorn::config::Capabilities capabilities;
  capabilities.http2 = posthorn::http::Http2Available(&capabilities.http2_reason);

  CLI::App app("Posthorn delivers Kafka topics to HTTP endpoints, within one rate limit for the whole fleet.",
               "posthorn");
  app.set_version_flag("--version", "posthorn " POSTHORN_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  posthorn::cli::AddWorkerCommand(app, exit_code, capabilities);
  posthorn::cli::AddCheckCommand(app, exit_code, capabilities,
                                 {&posthorn::cli::MakeConfigSource, &posthorn::cli::GetFromAdmin});
  posthorn::cli::AddSubscriptionsCommand(app, exit_code, capabilities);
  posthorn::cli::AddReplayCommand(app, exit_code, capabilities);
  posthorn::cli::AddDeadLettersCommand(app, exit_code, capabilities);
  posthorn::cli::AddSinkCommand(app, exit_code);
  posthorn::cli::AddDemoCommand(app, exit_code);
  posthorn::cli::AddSimulateCommand(app, exit_code);
  posthorn::cli::AddSchemaCommand(app, exit_code);
  posthorn::cli::AddImportCommand(app, exit_code, capabilities);
  const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty()) {
    // CLI11 would say that a subcommand is required, which is not what is wrong.
    std::cerr << "posthorn: there is no command `" << argv[1] << "`; there are:";
    for (const CLI::App* command : app.get_subcommands({})) std::cerr << ' ' << command->get_name();
    std::cerr << " (posthorn --help)\n";
    return posthorn::cli::kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too; everything else is wrong usage.
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (posthorn::kafka::ClientsAbandoned()) {
    std::cout.flush();
    std::_Exit(exit_code);
  }
  return exit_code;
}
