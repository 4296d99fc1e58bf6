#include "worker/cli/worker_command.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "config/fault.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/worker_process.h"
#include "worker/runtime/log.h"

namespace posthorn::cli {
namespace {

using runtime::Log;
using runtime::LogLevel;

struct WorkerArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool embedded_broker = false;
};

LogLevel LevelOf(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

int RunWorker(const WorkerArguments& arguments, const config::Capabilities& capabilities) {
  auto loaded = config::LoadDeployment(arguments.config, arguments.overrides);
  if (!loaded) {
    for (const auto& fault : loaded.faults) std::cerr << config::ToString(fault) << '\n';
    return kCannot;
  }
  runtime::ConfigureLog(LevelOf(loaded.value->log_level), loaded.value->log_json);

  // Every thread inherits the mask, so that only sigwait below sees these signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  WorkerProcess worker({*loaded.value, capabilities, arguments.embedded_broker});
  std::string why;
  if (!worker.Start(&why)) {
    std::cerr << "posthorn worker: " << why << '\n';
    return kCannot;
  }
  int received = 0;
  sigwait(&signals, &received);
  const bool for_good = received == SIGUSR1;
  Log(LogLevel::kInfo, for_good ? "stopping for good" : "stopping",
      {{"signal", for_good             ? "SIGUSR1"
                  : received == SIGINT ? "SIGINT"
                                       : "SIGTERM"}});
  // From now on the same signal again means: at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  worker.Stop(for_good);
  Log(LogLevel::kInfo, "stopped");
  return kDone;
}

}  // namespace

void AddWorkerCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  auto* command = app.add_subcommand("worker", "Run one worker of the fleet until SIGTERM or SIGINT");
  auto arguments = std::make_shared<WorkerArguments>();
  command->add_option("--config", arguments->config, "The deployment file, posthorn.yaml")->required();
  command
      ->add_option("--set", arguments->overrides,
                   "key=value over the deployment file, as often as needed: --set instance=orders-1 "
                   "--set kafka.bootstrap.servers=broker:9092")
      ->allow_extra_args(false);
  command
      ->add_flag("--embedded-broker", arguments->embedded_broker,
                 "The brokers are librdkafka's embedded ones (posthorn demo)")
      ->group("");
  command->footer(
      "Needs: a Kafka cluster, a deployment file, and the subscriptions it names (`posthorn check --help` lists every\n"
      "option). Answers on `admin`: /livez /readyz /metrics /subscriptions /config /fleet.\n"
      "SIGTERM finishes what is in flight, stores offsets and ends; a static member keeps its place in the group until "
      "its\n"
      "session ends. SIGUSR1 does the same and leaves the group for good. The same signal again ends at once.\n"
      "Exit code: 0 stopped gracefully, 1 cannot run, 2 wrong usage.");
  command->callback([arguments, &exit_code, capabilities] { exit_code = RunWorker(*arguments, capabilities); });
}

}  // namespace posthorn::cli
