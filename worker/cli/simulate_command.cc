#include "worker/cli/simulate_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "worker/cli/exit_code.h"
#include "worker/simulation/charts.h"
#include "worker/simulation/load_scenario.h"
#include "worker/simulation/outcome.h"
#include "worker/simulation/simulation.h"
#include "worker/simulation/summary.h"

namespace posthorn::cli {
namespace {

using simulation::Strategy;

struct SimulateArguments {
  std::string scenario;
  std::string strategy;
  std::string out;
};

bool Write(const std::filesystem::path& file, const auto& write) {
  std::ofstream stream(file, std::ios::binary);
  if (stream) write(stream);
  stream.close();
  if (!stream) std::cerr << "posthorn simulate: " << file.string() << " cannot be written\n";
  return bool(stream);
}

simulation::Nanoseconds CpuTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Not in the summary, which is the same for every run of a scenario.
void TellPlanningCost(const simulation::Outcome& outcome) {
  if (outcome.planning.empty()) return;
  const auto in_ms = [](simulation::Nanoseconds time) { return ratelimit::SecondsOf(time) * 1000; };
  const auto all = std::accumulate(outcome.planning.begin(), outcome.planning.end(), simulation::Nanoseconds(0));
  char text[160];
  std::snprintf(
      text, sizeof text,
      "hearing reports and planning: %.2f ms of CPU per second of the scenario, %.2f ms in the most expensive\n",
      in_ms(all) / static_cast<double>(outcome.planning.size()), in_ms(*std::ranges::max_element(outcome.planning)));
  std::cerr << text;
}

int Run(const SimulateArguments& arguments) {
  std::ifstream stream(arguments.scenario, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream) {
    std::cerr << arguments.scenario << ": cannot be read\n";
    return kCannot;
  }
  auto loaded = simulation::LoadScenario(arguments.scenario, text.str());
  if (!loaded) {
    std::cerr << config::ToString(loaded.faults) << loaded.faults.size()
              << (loaded.faults.size() == 1 ? " fault\n" : " faults\n");
    return kCannot;
  }
  simulation::Scenario& scenario = *loaded.value;
  if (scenario.name.empty()) scenario.name = std::filesystem::path(arguments.scenario).stem().string();
  if (const auto* name = std::ranges::find(simulation::kStrategyNames, arguments.strategy);
      name != std::end(simulation::kStrategyNames)) {
    scenario.strategy = static_cast<Strategy>(name - std::begin(simulation::kStrategyNames));
  }

  const simulation::Outcome outcome = simulation::Run(scenario, scenario.strategy, CpuTime);
  const std::string summary = simulation::ToJson(simulation::Summarise(outcome), scenario, outcome);
  if (!arguments.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    const std::filesystem::path folder(arguments.out);
    const std::string title = scenario.name + " (" + std::string(simulation::NameOf(scenario.strategy)) + ")";
    const bool written =
        Write(folder / "windows.csv", [&](std::ostream& out) { simulation::WriteCsv(outcome, out); }) &&
        Write(folder / "charts.svg", [&](std::ostream& out) { out << simulation::DrawCharts(outcome, title); }) &&
        Write(folder / "summary.json", [&](std::ostream& out) { out << summary; });
    if (!written) return kCannot;
  }
  std::cout << summary << std::flush;
  TellPlanningCost(outcome);
  return kDone;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate", "See how a fleet shares its max-rate, under virtual time: any number of workers, no Kafka");
  command->add_option("SCENARIO", arguments->scenario, "The scenario, see below; scripts/simulations has some")
      ->required();
  const std::vector<std::string> names(std::begin(simulation::kStrategyNames), std::end(simulation::kStrategyNames));
  command
      ->add_option(
          "--strategy", arguments->strategy,
          "static (slot k of N), adaptive (leases by demand), hermes (busy and not busy, with its ramp), fraction "
          "(suppression by moving average); default: the scenario's, adaptive")
      ->check(CLI::IsMember(names));
  command->add_option(
      "--out", arguments->out,
      "Directory for windows.csv (each second and worker), charts.svg and summary.json; made if missing");
  command->footer(
      "Prints the summary (JSON); two runs of a scenario are the same. On stderr: what the coordinator's planning "
      "cost.\n\n"
      "  max_rate: 1000/s\n"
      "  duration: 60s\n"
      "  workers:\n"
      "    - { name: worker, count: 4, arrivals: 200/s }\n"
      "  events:\n"
      "    - { at: 10s, workers: worker-0, restart: 15s }\n"
      "    - { at: 40s, max_rate: 500/s }\n\n"
      "Keys of a scenario (form, default):\n" +
      simulation::ScenarioHelp() +
      "\nsummary.json: seconds_above_total counts the seconds in which all together sent more than the highest "
      "max-rate "
      "allows\n"
      "that somebody shared them out by: known at the time, or with adaptive the one that a lease for them was granted "
      "under (always\n"
      "0 with static and adaptive); use_of_the_total_while_lag is what was sent of the total in seconds that ended "
      "with "
      "messages\n"
      "waiting; windows_to_full_use counts, from the start and from each event, the windows until at least 95 % of the "
      "total is\n"
      "sent or nobody who runs has a lag, and stays so until the next event (null: never).");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace posthorn::cli
