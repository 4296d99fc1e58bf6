#include "worker/kafka/commit_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Key = CommitPlanner::Key;
using Time = CommitPlanner::Time;

constexpr Time kStart{std::chrono::hours(1000)};

Key KeyOf(const std::string& subscription, std::int32_t partition = 0) { return {subscription, {"t", partition}}; }

class CommitPlannerTest : public testing::Test {
 protected:
  void Change(const Key& key, std::int64_t next, bool urgent = false) {
    planner_.Update(key, {next, ""}, urgent, true, now_);
  }
  std::vector<CommitPlanner::Batch> Take() { return planner_.Take(now_); }
  void Answer(const CommitPlanner::Batch& batch, bool good = true) {
    planner_.Done(batch, std::vector<bool>(batch.items.size(), good), now_, calls_);
  }
  // Takes and answers everything that is due now.
  std::size_t WriteAll() {
    std::size_t count = 0;
    for (auto batches = Take(); !batches.empty(); batches = Take()) {
      for (const auto& batch : batches) {
        Answer(batch);
        ++count;
      }
    }
    return count;
  }
  std::vector<bool> Calls() {
    std::vector<bool> results;
    for (auto& [done, good] : std::exchange(calls_, {})) {
      done(good);
      results.push_back(good);
    }
    return results;
  }

  CommitPlanner planner_{CommitPlanner::Options{}, 1};
  CommitPlanner::Calls calls_;
  Time now_ = kStart;
};

TEST_F(CommitPlannerTest, OneRequestCarriesAllChangesOfASubscription) {
  Change(KeyOf("a", 0), 1);
  Change(KeyOf("a", 1), 2);
  Change(KeyOf("a", 0), 3);
  Change(KeyOf("b", 0), 4);
  const auto batches = Take();
  ASSERT_THAT(batches, SizeIs(2));
  const auto& a = batches[0].subscription == "a" ? batches[0] : batches[1];
  ASSERT_THAT(a.items, SizeIs(2));
  EXPECT_EQ(a.items[0].position.next, 3);
  EXPECT_EQ(a.items[1].position.next, 2);
}

TEST_F(CommitPlannerTest, NextTurnComesAnIntervalLater) {
  Change(KeyOf("a"), 1);
  Answer(Take().at(0));
  now_ += 10ms;
  Change(KeyOf("a"), 2);
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(planner_.wake_at(), kStart + 1s);
  now_ = kStart + 1s;
  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(CommitPlannerTest, UrgentDoesNotWait) {
  Change(KeyOf("a"), 1);
  Answer(Take().at(0));
  now_ += 10ms;
  Change(KeyOf("a"), 2, true);
  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(CommitPlannerTest, OneRequestPerSubscriptionUnderWay) {
  Change(KeyOf("a"), 1);
  const auto first = Take();
  now_ += 2s;
  Change(KeyOf("a"), 2, true);
  EXPECT_THAT(Take(), IsEmpty());
  Answer(first.at(0));
  const auto second = Take();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].items[0].position.next, 2);
}

TEST_F(CommitPlannerTest, UnchangedPositionsAreNotWrittenAgain) {
  Change(KeyOf("a"), 1);
  WriteAll();
  now_ += 2s;
  Change(KeyOf("a"), 1);
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(CommitPlannerTest, FailuresAreRepeatedLaterAndLater) {
  Change(KeyOf("a"), 1);
  std::vector<std::chrono::milliseconds> waits;
  for (int i = 0; i < 8; ++i) {
    const auto batches = Take();
    ASSERT_THAT(batches, SizeIs(1)) << i;
    Answer(batches[0], false);
    const Time failed = now_;
    now_ += 1ms;
    EXPECT_THAT(Take(), IsEmpty());
    waits.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(planner_.wake_at() - failed));
    now_ = planner_.wake_at();
  }
  EXPECT_THAT(waits, ElementsAre(1000ms, 1000ms, 1000ms, 1000ms, 1600ms, 3200ms, 5000ms, 5000ms));
  EXPECT_EQ(planner_.Waiting().first, 1U);
  EXPECT_EQ(planner_.Waiting().second, kStart);
  WriteAll();
  EXPECT_EQ(planner_.Waiting().first, 0U);
}

TEST_F(CommitPlannerTest, OnlyTheRefusedPartitionIsRepeated) {
  Change(KeyOf("a", 0), 1);
  Change(KeyOf("a", 1), 1);
  const auto batch = Take().at(0);
  planner_.Done(batch, {true, false}, now_, calls_);
  now_ += 2s;
  const auto again = Take();
  ASSERT_THAT(again, SizeIs(1));
  ASSERT_THAT(again[0].items, SizeIs(1));
  EXPECT_EQ(again[0].items[0].partition.partition, 1);
}

TEST_F(CommitPlannerTest, FlushWritesNowAndTellsWhenStored) {
  Change(KeyOf("a"), 1);
  WriteAll();
  now_ += 1ms;
  Change(KeyOf("a"), 2);
  planner_.Flush(
      {KeyOf("a"), KeyOf("never noted")}, [](bool) {}, calls_);
  EXPECT_THAT(Calls(), IsEmpty());
  const auto batches = Take();
  ASSERT_THAT(batches, SizeIs(1));
  Answer(batches[0]);
  EXPECT_THAT(Calls(), ElementsAre(true));
}

TEST_F(CommitPlannerTest, FlushOfNothingIsDoneAtOnce) {
  Change(KeyOf("a"), 1);
  WriteAll();
  planner_.Flush(
      {KeyOf("a")}, [](bool) {}, calls_);
  EXPECT_THAT(Calls(), ElementsAre(true));
}

TEST_F(CommitPlannerTest, FlushWaitsForARequestUnderWayAndRepeatsIt) {
  Change(KeyOf("a"), 1);
  const auto batch = Take().at(0);
  planner_.Flush(
      {KeyOf("a")}, [](bool) {}, calls_);
  EXPECT_THAT(Take(), IsEmpty());
  Answer(batch, false);
  EXPECT_THAT(Calls(), IsEmpty());
  now_ += 100ms;
  const auto again = Take();
  ASSERT_THAT(again, SizeIs(1));
  Answer(again[0]);
  EXPECT_THAT(Calls(), ElementsAre(true));
}

TEST_F(CommitPlannerTest, FlushIsNotHeldBackByTheBudget) {
  CommitPlanner::Options options;
  options.requests_per_second = 1;
  planner_ = CommitPlanner(options, 1);
  std::vector<Key> keys;
  for (int i = 0; i < 50; ++i) {
    keys.push_back(KeyOf("s" + std::to_string(i)));
    Change(keys.back(), 1);
  }
  EXPECT_THAT(Take(), SizeIs(1));
  planner_.Flush(
      keys, [](bool) {}, calls_);
  EXPECT_THAT(Take(), SizeIs(49));
}

TEST_F(CommitPlannerTest, DropForgetsAndEndsFlushes) {
  Change(KeyOf("a", 0), 1);
  Change(KeyOf("a", 1), 1);
  planner_.Flush(
      {KeyOf("a", 0)}, [](bool) {}, calls_);
  planner_.Drop({KeyOf("a", 0)}, calls_);
  EXPECT_THAT(Calls(), ElementsAre(false));
  const auto batches = Take();
  ASSERT_THAT(batches, SizeIs(1));
  ASSERT_THAT(batches[0].items, SizeIs(1));
  EXPECT_EQ(batches[0].items[0].partition.partition, 1);
  planner_.Drop({KeyOf("a", 1)}, calls_);
  Answer(batches[0], false);
  now_ += 1h;
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(CommitPlannerTest, AnAnswerToADroppedPositionDoesNotCountForTheNextOwner) {
  Change(KeyOf("a"), 1);
  const auto batch = Take().at(0);
  planner_.Drop({KeyOf("a")}, calls_);
  Change(KeyOf("a"), 5);
  Answer(batch);
  EXPECT_EQ(planner_.Waiting().first, 1U);
  now_ += 1s;
  const auto again = Take();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].items[0].position.next, 5);
}

TEST_F(CommitPlannerTest, BudgetStretchesTheIntervalAndTheLongestWaitingGoesFirst) {
  CommitPlanner::Options options;
  options.requests_per_second = 100;
  options.max_clients = 1;
  planner_ = CommitPlanner(options, 1);
  std::map<std::string, int> written;
  std::size_t requests = 0;
  for (int tick = 0; tick < 1000; ++tick) {
    now_ += 10ms;
    for (int s = 0; s < 300; ++s) Change(KeyOf("s" + std::to_string(s)), tick);
    for (const auto& batch : Take()) {
      ++written[batch.subscription];
      ++requests;
      Answer(batch);
    }
  }
  EXPECT_LE(requests, 1010U);
  EXPECT_GE(requests, 990U);
  ASSERT_THAT(written, SizeIs(300));
  for (const auto& [name, count] : written) {
    EXPECT_GE(count, 2) << name;
    EXPECT_LE(count, 5) << name;
  }
}

TEST_F(CommitPlannerTest, ClientsGrowWithTheSubscriptionsThatChange) {
  for (int s = 0; s < 350; ++s) Change(KeyOf("s" + std::to_string(s)), 1);
  Take();
  EXPECT_EQ(planner_.clients(), 4U);
  for (int s = 0; s < 5000; ++s) Change(KeyOf("s" + std::to_string(s)), 1);
  now_ += 1s;
  Take();
  EXPECT_EQ(planner_.clients(), 8U);
}

TEST_F(CommitPlannerTest, QuietPositionsAreRefreshedAtATenthOfTheRetention) {
  planner_.SetRetention(1000min, now_);
  Change(KeyOf("a"), 7);
  WriteAll();
  const Time written = now_;
  now_ = planner_.wake_at();
  now_ = std::max(now_, written + 1min);
  std::vector<CommitPlanner::Batch> batches;
  while ((batches = Take()).empty()) now_ = planner_.wake_at();
  EXPECT_GE(now_ - written, 90min);
  EXPECT_LE(now_ - written, 100min);
  ASSERT_THAT(batches[0].items, SizeIs(1));
  EXPECT_EQ(batches[0].items[0].position.next, 7);
  EXPECT_EQ(planner_.Waiting().first, 0U);
}

TEST_F(CommitPlannerTest, PositionsOfUnknownAgeAreRefreshedSoonAndByAFlush) {
  planner_.Update(KeyOf("a"), {3, "m"}, false, false, now_);
  planner_.Update(KeyOf("b"), {4, ""}, false, false, now_);
  planner_.Flush(
      {KeyOf("b")}, [](bool) {}, calls_);
  const auto flushed = Take();
  ASSERT_THAT(flushed, SizeIs(1));
  EXPECT_EQ(flushed[0].subscription, "b");
  Answer(flushed[0]);
  EXPECT_THAT(Calls(), ElementsAre(true));
  std::vector<CommitPlanner::Batch> batches;
  while ((batches = Take()).empty()) now_ = planner_.wake_at();
  EXPECT_LE(now_ - kStart, 10min);
  EXPECT_EQ(batches[0].subscription, "a");
  EXPECT_EQ(batches[0].items[0].position.metadata, "m");
}

TEST_F(CommitPlannerTest, WrittenAgainIsEverythingNotedAndAfterAWhile) {
  Change(KeyOf("a", 0), 1);
  Change(KeyOf("a", 1), 2);
  Change(KeyOf("b", 0), 3);
  WriteAll();
  now_ += 10s;
  planner_.WriteAgain(now_);
  EXPECT_EQ(planner_.wake_at(), now_ + 3s);
  now_ += 2s;
  planner_.WriteAgain(now_);  // does not put the first one off
  Change(KeyOf("a", 0), 4);
  const auto changed = Take();
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_THAT(changed[0].items, SizeIs(1)) << "what is to be written again was written before its time";
  Answer(changed[0]);
  EXPECT_THAT(Take(), IsEmpty());
  now_ += 1s;
  const auto again = Take();
  ASSERT_THAT(again, SizeIs(2));
  std::map<Key, std::int64_t> written;
  for (const auto& batch : again) {
    for (const auto& item : batch.items) written[{batch.subscription, item.partition}] = item.position.next;
    Answer(batch);
  }
  EXPECT_THAT(written, testing::UnorderedElementsAre(testing::Pair(KeyOf("a", 0), 4), testing::Pair(KeyOf("a", 1), 2),
                                                     testing::Pair(KeyOf("b", 0), 3)));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_GT(planner_.wake_at(), now_ + 1h);
}

TEST_F(CommitPlannerTest, WhatIsDroppedBeforeItIsWrittenAgainIsForgotten) {
  Change(KeyOf("a"), 1);
  const auto refused = Take();
  ASSERT_THAT(refused, SizeIs(1));
  planner_.WriteAgain(now_);
  now_ += 3s;
  Answer(refused[0], false);
  EXPECT_THAT(Take(), IsEmpty()) << "it waits after its failure";
  planner_.Drop({KeyOf("a")}, calls_);
  now_ += 10s;
  EXPECT_THAT(Take(), IsEmpty());
}

// Whatever happens, what was noted last is what is stored in the end, and every flush is answered once.
TEST(CommitPlannerProperty, NothingIsForgotten) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    CommitPlanner::Options options;
    options.requests_per_second = 20;
    options.in_flight_per_client = 3;
    options.write_again_after = 500ms;
    CommitPlanner planner(options, random());
    CommitPlanner::Calls calls;
    Time now = kStart;
    std::map<Key, std::int64_t> noted;
    std::map<Key, std::int64_t> stored;
    std::vector<CommitPlanner::Batch> under_way;
    int flushes = 0;
    int answered = 0;
    const auto any_key = [&] { return KeyOf("s" + std::to_string(random() % 6), static_cast<int>(random() % 3)); };
    const auto answer = [&](bool good_always) {
      const auto batch = under_way.back();
      under_way.pop_back();
      std::vector<bool> good;
      for (const auto& item : batch.items) {
        good.push_back(good_always || random() % 4 != 0);
        const Key key{batch.subscription, item.partition};
        if (good.back()) stored[key] = item.position.next;
      }
      planner.Done(batch, good, now, calls);
    };
    for (int step = 0; step < 400; ++step) {
      now += std::chrono::milliseconds(random() % 40);
      switch (random() % 8) {
        case 0: {
          ++flushes;
          planner.Flush(
              {any_key(), any_key()}, [&](bool) { ++answered; }, calls);
          break;
        }
        case 1: {
          const auto key = any_key();
          // A request under way may still store it: the next owner writes after it has looked.
          if (random() % 4 == 0 && under_way.empty()) {
            planner.Drop({key}, calls);
            noted.erase(key);
          }
          break;
        }
        case 3:
          if (random() % 4 == 0) planner.WriteAgain(now);
          break;
        case 2:
          if (!under_way.empty()) answer(false);
          break;
        default: {
          const auto key = any_key();
          noted[key] = step;
          planner.Update(key, {step, ""}, random() % 10 == 0, true, now);
        }
      }
      for (auto& batch : planner.Take(now)) under_way.push_back(std::move(batch));
      for (auto& [done, good] : std::exchange(calls, {})) done(good);
    }
    for (int guard = 0; guard < 10'000 && (planner.Waiting().first > 0 || !under_way.empty()); ++guard) {
      while (!under_way.empty()) answer(true);
      now += 100ms;
      for (auto& batch : planner.Take(now)) under_way.push_back(std::move(batch));
    }
    for (auto& [done, good] : std::exchange(calls, {})) done(good);
    for (const auto& [key, next] : noted) EXPECT_EQ(stored[key], next) << key.subscription;
    EXPECT_EQ(answered, flushes);
  }
}

}  // namespace
}  // namespace posthorn::kafka
