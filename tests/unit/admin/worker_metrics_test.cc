#include "worker/admin/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/unit/admin/shown_worker.h"
#include "worker/admin/metric_table.h"

namespace posthorn::admin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// One worker in which every metric has something to say.
struct WorkerMetricsTest : ::testing::Test {
  test::ShownWorker worker;

  void Fill() {
    worker.AddLimit("acme", "500/s");
    auto& billing = worker.AddSubscription("billing", "acme");
    for (auto& stats : billing.per_shard) {
      stats->attempts_delivered.Add(10);
      stats->attempts_overload.Add(1);
      stats->delivered.Add(10);
      stats->exhausted.Add(2);
      stats->in_flight.Set(3);
      stats->retrying.Set(4);
      stats->duration_buckets[0].Add(6);
      stats->duration_buckets[13].Add(1);
      stats->duration_sum_ns.Add(1'500'000'000);
    }
    worker.Slow(billing);
    worker.subscriptions[0].lanes = {{{"orders", 0}, 90, 100}, {{"orders", 1}, 5, -1}, {{"orders", 2}, 8, 7}};
    worker.subscriptions[0].lanes[1].reader = delivery::LaneReader::kOwn;
    worker.subscriptions[0].lanes[2].reader = delivery::LaneReader::kWaitsForOwn;
    worker.Accept();
    worker.watch.refused = 3;
    worker.watch.newest_refused = true;
    worker.watch.source_failures = 2;
    worker.membership.joined = true;
    worker.membership.subscribed = true;
    worker.membership.owned = {{"orders", 0}, {"orders", 1}, {"orders", 2}};
    worker.membership.rebalances = 4;
    worker.offsets.requests = 77;
    worker.offsets.oldest_unwritten = std::chrono::milliseconds(250);
    worker.dead_letters.written = 5;
    worker.memory->used = 123;
  }
  std::string Scrape() { return WorkerMetrics(worker.View()).Scrape(); }
};

/// Name of the family each sample belongs to, by the TYPE lines; fails the test on anything that is not the format.
std::set<std::string> Parse(const std::string& text) {
  static const std::regex sample(
      R"re(([a-z_]+)(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? ([-+0-9.eE]+|[+-]Inf|Nan))re");
  std::map<std::string, std::string> types;
  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      std::string name, type;
      words >> name >> type;
      EXPECT_TRUE(types.emplace(name, type).second) << "twice: " << name;
      continue;
    }
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, sample)) << line;
    if (match.empty()) continue;
    std::string name = match[1];
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      const auto stem = name.substr(0, name.size() - std::min(name.size(), suffix.size()));
      if (name.ends_with(suffix) && types[stem] == "histogram") name = stem;
    }
    EXPECT_TRUE(types.contains(name)) << "a sample before its TYPE: " << line;
    families.insert(name);
  }
  return families;
}

TEST_F(WorkerMetricsTest, ShowsEverythingInTheTableAndNothingElse) {
  worker.Lease("acme");
  Fill();
  std::set<std::string> table;
  for (const auto& entry : MetricTable()) table.insert(std::string(entry.name));
  EXPECT_EQ(Parse(Scrape()), table);
}

TEST_F(WorkerMetricsTest, SumsTheShards) {
  Fill();
  const auto text = Scrape();
  EXPECT_THAT(text,
              HasSubstr("\nposthorn_delivery_attempts_total{subscription=\"billing\",outcome=\"delivered\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_delivery_attempts_total{subscription=\"billing\",outcome=\"overload\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_messages_finished_total{subscription=\"billing\",result=\"attempts\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_in_flight{subscription=\"billing\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_retrying{subscription=\"billing\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_endpoint_health{subscription=\"billing\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_own_readers{subscription=\"billing\",state=\"reading\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_own_readers{subscription=\"billing\",state=\"waiting\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_endpoint_ceiling_attempts_per_second{subscription=\"billing\"} 50\n"));
  EXPECT_THAT(text, HasSubstr("_seconds_bucket{subscription=\"billing\",le=\"0.001\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("_seconds_bucket{subscription=\"billing\",le=\"10\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("_seconds_bucket{subscription=\"billing\",le=\"+Inf\"} 14\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_delivery_attempt_duration_seconds_sum{subscription=\"billing\"} 3\n"));
}

TEST_F(WorkerMetricsTest, LagIsLeftOutWhileTheLogEndIsUnknownAndNeverNegative) {
  Fill();
  const auto text = Scrape();
  EXPECT_THAT(
      text,
      HasSubstr("\nposthorn_consumer_lag_records{subscription=\"billing\",topic=\"orders\",partition=\"0\"} 10\n"));
  EXPECT_THAT(text, Not(HasSubstr("partition=\"1\"")));
  EXPECT_THAT(
      text,
      HasSubstr("\nposthorn_consumer_lag_records{subscription=\"billing\",topic=\"orders\",partition=\"2\"} 0\n"));
}

TEST_F(WorkerMetricsTest, ShowsLimitsConfigurationAndGroup) {
  Fill();
  worker.Take(0, 12);
  worker.world.clock.Advance(std::chrono::milliseconds(500));
  const auto text = Scrape();
  EXPECT_THAT(text, HasSubstr("\nposthorn_partial_limit_permits{limit=\"acme\"} 500\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_limit_max_rate{limit=\"acme\"} 500\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_limit_permits_used_total{limit=\"acme\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_config_info{digest=\"0123abcd\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_config_age_seconds 0.5\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_config_newest_refused 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_group_member 1\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_group_partitions_owned 3\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_offset_oldest_unwritten_seconds 0.25\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_memory_held_bytes 123\n"));
  EXPECT_THAT(text, HasSubstr("\nposthorn_memory_limit_bytes 1000\n"));
}

TEST_F(WorkerMetricsTest, AWorkerWithoutConfigurationStillAnswers) {
  const auto text = Scrape();
  Parse(text);
  EXPECT_THAT(text, HasSubstr("\nposthorn_config_revisions_accepted_total 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("posthorn_config_info{")));
  EXPECT_THAT(text, HasSubstr("\nposthorn_group_member 0\n"));
}

TEST_F(WorkerMetricsTest, AFencedWorkerIsNoMember) {
  Fill();
  worker.membership.fenced = true;
  EXPECT_THAT(Scrape(), HasSubstr("\nposthorn_group_member 0\n"));
}

TEST_F(WorkerMetricsTest, AThousandSubscriptions) {
  for (int i = 0; i < 1000; ++i) worker.AddSubscription("subscription-" + std::to_string(i));
  worker.Accept();
  const auto text = Scrape();
  EXPECT_THAT(text, HasSubstr("\nposthorn_in_flight{subscription=\"subscription-999\"} 0\n"));
}

}  // namespace
}  // namespace posthorn::admin
