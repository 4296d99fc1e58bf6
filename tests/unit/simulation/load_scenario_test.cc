#include "worker/simulation/load_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "scenario_text.h"

namespace posthorn::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FaultsOf(const std::string& yaml) {
  const auto loaded = LoadScenario("s.yaml", yaml);
  EXPECT_FALSE(loaded);
  return config::ToString(loaded.faults);
}

TEST(LoadScenario, TakesDefaultsWhereNothingIsSaid) {
  const Scenario scenario = testing::Parse("max_rate: 10/s\nworkers: [{name: w}]\n");
  EXPECT_EQ(scenario.strategy, Strategy::kAdaptive);
  EXPECT_EQ(scenario.duration, seconds(60));
  EXPECT_EQ(scenario.lease, 10);
  ASSERT_EQ(scenario.workers.size(), 1u);
  EXPECT_EQ(scenario.workers[0].name, "w");
  EXPECT_EQ(scenario.workers[0].endpoint_time, milliseconds(20));
}

TEST(LoadScenario, NumbersTheWorkersOfAGroupAndSharesItsArrivalsOut) {
  const Scenario scenario = testing::Parse(R"(
max_rate: 10/s
workers:
  - { name: a, count: 3, arrivals_of_all: 110/s, zipf: 1 }
  - { name: b, arrivals: 0.5/s, backlog: 7 }
)");
  ASSERT_EQ(scenario.workers.size(), 4u);
  EXPECT_EQ(scenario.workers[2].name, "a-2");
  EXPECT_NEAR(scenario.workers[0].arrivals, 60, 1e-9);
  EXPECT_NEAR(scenario.workers[1].arrivals, 30, 1e-9);
  EXPECT_NEAR(scenario.workers[2].arrivals, 20, 1e-9);
  EXPECT_EQ(scenario.workers[3].name, "b");
  EXPECT_EQ(scenario.workers[3].arrivals, 0.5);
  EXPECT_EQ(scenario.workers[3].backlog, 7);
}

TEST(LoadScenario, OrdersEventsAndMakesTwoOfARestart) {
  const Scenario scenario = testing::Parse(R"(
max_rate: 10/s
network: { loss: 5% }
workers: [{ name: a, count: 2 }, { name: b }]
events:
  - { at: 20s, workers: [b, a-1], restart: 5s }
  - { at: 10s, max_rate: 30/min }
  - { at: 22s, network: { delay: 1s } }
)");
  ASSERT_EQ(scenario.events.size(), 4u);
  EXPECT_EQ(scenario.events[0].max_rate, MaxRate::Parse("0.5/s", nullptr));
  EXPECT_EQ(scenario.events[0].text, "max_rate 30/min");
  EXPECT_EQ(scenario.events[1].process, Event::Process::kStop);
  EXPECT_THAT(scenario.events[1].workers, ElementsAre(2, 1));
  EXPECT_EQ(scenario.events[2].network->delay_most, seconds(1));
  EXPECT_EQ(scenario.events[2].network->loss, 0.05);
  EXPECT_EQ(scenario.events[3].at, seconds(25));
  EXPECT_EQ(scenario.events[3].process, Event::Process::kStart);
}

TEST(LoadScenario, TellsEveryFaultWithPlaceValueAndRule) {
  const std::string faults = FaultsOf(R"(max_rat: 10/s
duration: 1500ms
tick: 50ms
workers:
  - { name: a, count: 0, arrivals: 5 }
  - { name: a, zipf: 1 }
events:
  - { at: 99h, workers: c, arrivals: 1/s }
  - { at: 1s, process: crash }
)");
  for (const char* fault : {"s.yaml:1:1: max_rat: unknown key (did you mean `max_rate`?)", "max_rate: is needed",
                            "needs whole seconds", "s.yaml:3:7: tick: \"50ms\": needs to be from 1ms to 20ms",
                            "workers[0].count: \"0\": needs to be from 1 to 100000", "workers[0].arrivals: \"5\"",
                            "workers[1].name: \"a\": stands here twice", "workers[1].zipf", "events[0].at: \"99h\"",
                            "no group and no worker is called c", "events[1].process: \"crash\": needs one of"}) {
    EXPECT_THAT(faults, HasSubstr(fault));
  }
}

TEST(LoadScenario, RefusesWhatIsNoScenario) {
  for (const char* text : {"", "7", "[]", "a: {", "max_rate: 1/s\n---\nmax_rate: 1/s\n", "max_rate: 1/s\nworkers: []",
                           "max_rate: 1/s\nworkers: 3", "max_rate: [1]\nworkers: [3, {}]"}) {
    EXPECT_FALSE(FaultsOf(text).empty()) << text;
  }
}

TEST(LoadScenario, MissesWorkersOnceWhateverElseIsWrong) {
  EXPECT_THAT(FaultsOf("max_rate: 1\nworkers: []\n"), HasSubstr("workers: needs at least one worker"));
  EXPECT_THAT(FaultsOf("max_rate: 1/s\n"), Not(HasSubstr("at least one")));
  EXPECT_THAT(FaultsOf("max_rate: 1/s\nworkers: [{ name: a, count: 0 }]\n"), Not(HasSubstr("at least one")));
}

TEST(LoadScenario, TheScenariosThatAreShippedAreRight) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(POSTHORN_SOURCE_DIR "/scripts/simulations")) {
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    const auto loaded = LoadScenario(entry.path().filename().string(), text.str());
    EXPECT_TRUE(loaded) << config::ToString(loaded.faults);
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(LoadScenario, HelpNamesEveryKey) {
  for (const char* key : {"max_rate", "warm_up", "arrivals_of_all", "restart", "delay_most", "coordinator"}) {
    EXPECT_THAT(ScenarioHelp(), HasSubstr(key));
  }
}

}  // namespace
}  // namespace posthorn::simulation
