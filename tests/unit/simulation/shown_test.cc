// What a run leaves behind: lines, numbers, a picture.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "scenario_text.h"
#include "worker/simulation/charts.h"
#include "worker/simulation/outcome.h"
#include "worker/simulation/summary.h"

namespace posthorn::simulation {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two workers, a limit of 10; second 1 is above, after that the first one has a lag of 5, 3, 0, 0.
Outcome Made() {
  Outcome outcome;
  outcome.workers = {"a", "b"};
  outcome.first = 1'700'000'000;
  outcome.seconds = 6;
  outcome.total.assign(6, 10);
  outcome.most.assign(6, 10);
  outcome.cells = {{5, 0, 0, 5},  {5, 0, 0, 5}, {7, 0, 5, 5}, {5, 1, 0, 5.25}, {5, 0, 5, 5}, {0, 0, 0, 5},
                   {10, 0, 3, 9}, {0, 0, 0, 1}, {3, 0, 0, 9}, {0, 0, 0, 1},    {0, 0, 0, 9}, {0, 0, 0, 1}};
  for (Cell& cell : outcome.cells) cell.running = true;
  outcome.events = {{1, "a <more>"}};
  return outcome;
}

TEST(WriteCsv, HasALineForEachLabelAndWorker) {
  std::ostringstream out;
  WriteCsv(Made(), out);
  EXPECT_THAT(out.str(), StartsWith("label,second,worker,sent,partial_limit,lag,rejected\n1700000000,0,a,5,5,0,0\n"
                                    "1700000000,0,b,5,5,0,0\n1700000000,0,*,10,10,0,0\n1700000001,1,a,7,5,5,0\n"
                                    "1700000001,1,b,5,5.2,0,1\n1700000001,1,*,12,10,5,1\n"));
}

TEST(Summarise, CountsWhatIsAboveAndHowTheTotalIsUsed) {
  const Summary summary = Summarise(Made());
  EXPECT_EQ(summary.seconds_above_total, 1u);
  EXPECT_EQ(summary.worst->second, 1u);
  EXPECT_EQ(summary.worst->sent, 12);
  EXPECT_EQ(summary.sent, 40);
  EXPECT_EQ(summary.rejected, 1);
  EXPECT_EQ(summary.seconds_with_lag, 3u);
  EXPECT_NEAR(*summary.use_while_lag, 25.0 / 30, 1e-9);  // 10, 5 and 10 of 10
  EXPECT_EQ(summary.seconds_to_drain, 3u);
  ASSERT_EQ(summary.after_events.size(), 2u);
  EXPECT_EQ(summary.after_events[0].windows_to_full_use, 0u);
  EXPECT_EQ(summary.after_events[1].windows_to_full_use, 2u);  // second 2 is at half
}

TEST(Summarise, WhatWaitsAtAWorkerThatIsDownIsNobodysFault) {
  Outcome outcome = Made();
  for (Cell& cell : outcome.cells) cell.running = false;
  const Summary summary = Summarise(outcome);
  EXPECT_EQ(summary.seconds_with_lag, 0u);
  EXPECT_EQ(summary.after_events[1].windows_to_full_use, 0u);
  EXPECT_EQ(summary.seconds_to_drain, 3u);
}

TEST(Summarise, SaysWhenItNeverDrains) {
  Outcome outcome = Made();
  outcome.cells.back().lag = 1;
  const Summary summary = Summarise(outcome);
  EXPECT_EQ(summary.seconds_to_drain, std::nullopt);
  EXPECT_EQ(summary.after_events[1].windows_to_full_use, std::nullopt);
  const std::string json = ToJson(summary, testing::Parse("max_rate: 10/s\nworkers: [{name: a}]"), outcome);
  EXPECT_THAT(json, HasSubstr("\"seconds_above_total\": 1,"));
  EXPECT_THAT(json, HasSubstr("\"worst\": {\"second\": 1, \"sent\": 12, \"total\": 10}"));
  EXPECT_THAT(json, HasSubstr("\"seconds_to_drain_after_the_last_event\": null"));
  EXPECT_THAT(json, HasSubstr("{\"second\": 1, \"event\": \"a <more>\", \"windows\": null}"));
}

TEST(DrawCharts, DrawsEveryWorkerAndEscapesNames) {
  const std::string svg = DrawCharts(Made(), "A & B");
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("A &amp; B"));
  EXPECT_THAT(svg, HasSubstr("a &lt;more>"));
  EXPECT_THAT(svg, HasSubstr(">b</text>"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST(DrawCharts, WithManyWorkersMostShareALine) {
  Outcome outcome;
  outcome.seconds = 3;
  for (int i = 0; i < 96; ++i) outcome.workers.push_back("w-" + std::to_string(i));
  outcome.cells.resize(3 * 96);
  outcome.total.assign(3, 10);
  outcome.most.assign(3, 10);
  outcome.cells[40].sent = 10;
  const std::string svg = DrawCharts(outcome, "many");
  EXPECT_THAT(svg, HasSubstr(">w-40</text>"));
  EXPECT_THAT(svg, HasSubstr("mean of the other 85"));
  EXPECT_LT(svg.size(), 20'000u);
}

}  // namespace
}  // namespace posthorn::simulation
