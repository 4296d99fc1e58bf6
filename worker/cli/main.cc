#include <CLI/CLI.hpp>
#include <iostream>

#include "worker/cli/check_command.h"
#include "worker/cli/demo_command.h"
#include "worker/cli/sink_command.h"
#include "worker/cli/worker_command.h"
#include "worker/http/libcurl_support.h"

int main(int argc, char** argv) {
  posthorn::config::Capabilities capabilities;
  capabilities.http2 = posthorn::http::Http2Available(&capabilities.http2_reason);

  CLI::App app("Posthorn delivers Kafka topics to HTTP endpoints, within one rate limit for the whole fleet.",
               "posthorn");
  app.set_version_flag("--version", "posthorn " POSTHORN_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  posthorn::cli::AddWorkerCommand(app, exit_code, capabilities);
  posthorn::cli::AddCheckCommand(app, exit_code, capabilities);
  posthorn::cli::AddSinkCommand(app, exit_code);
  posthorn::cli::AddDemoCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too; everything else is wrong usage.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
