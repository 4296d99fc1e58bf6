#include "config/sources/config_watch.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <variant>

#include "config/sources/file_source.h"
#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Answers what the test puts in; waits where there is nothing.
class ScriptedSource final : public Source {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::deque<Outcome> outcomes;
    std::vector<std::string> asked;  // `have` of each call

    void Put(Outcome outcome) {
      const std::lock_guard lock(mutex);
      outcomes.push_back(std::move(outcome));
      changed.notify_all();
    }
    // Whether the call after the last answer still came before the stop is chance.
    std::vector<std::string> FirstAsked(std::size_t count) {
      const std::lock_guard lock(mutex);
      return {asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(std::min(count, asked.size()))};
    }
    void PutText(const std::string& revision, const std::string& text) {
      Put(Changed{{revision, "r" + revision, {{"s.yaml", text}}}});
    }
  };

  explicit ScriptedSource(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Outcome Next(const std::string& have, std::chrono::milliseconds, std::stop_token stop) override {
    std::unique_lock lock(state_->mutex);
    state_->asked.push_back(have);
    if (!state_->changed.wait(lock, stop, [&] { return !state_->outcomes.empty(); })) return Stopped();
    Outcome outcome = std::move(state_->outcomes.front());
    state_->outcomes.pop_front();
    return outcome;
  }
  std::string Describe() const override { return "script"; }

 private:
  std::shared_ptr<State> state_;
};

// Keeps what it is told as lines, and waits for them.
class Recorder final : public ConfigObserver {
 public:
  void OnAccepted(const SnapshotPtr& snapshot) override {
    Add("accepted " + std::to_string(snapshot->subscriptions.size()));
  }
  void OnRefused(const Refusal& refusal) override { Add("refused " + std::to_string(refusal.faults.size())); }
  void OnSourceFailed(const std::string& why) override { Add("failed " + why); }
  void OnSourceRecovered() override { Add("recovered"); }

  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::vector<std::string> Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

const std::string kGood = OneSubscription("    ttl: 1h\n");
const std::string kBetter = OneSubscription("    ttl: 2h\n");
const std::string kBad = OneSubscription("    ttl: 1\n    timeout: 1\n");

class ConfigWatchTest : public ::testing::Test {
 protected:
  std::shared_ptr<ScriptedSource::State> script_ = std::make_shared<ScriptedSource::State>();
  Recorder recorder_;
  ConfigWatch watch_{std::make_unique<ScriptedSource>(script_), {}, &recorder_};
};

TEST_F(ConfigWatchTest, PublishesToListenersOfBeforeAndAfter) {
  std::vector<SnapshotPtr> early;
  watch_.Listen([&](const SnapshotPtr& s) { early.push_back(s); });
  EXPECT_EQ(watch_.Current(), nullptr);
  watch_.Start();
  script_->PutText("1", kGood);
  recorder_.Await(1);
  script_->PutText("2", kBetter);
  recorder_.Await(2);
  std::vector<SnapshotPtr> late;
  watch_.Listen([&](const SnapshotPtr& s) { late.push_back(s); });
  watch_.Stop();
  ASSERT_THAT(early, SizeIs(2));
  EXPECT_THAT(late, ElementsAre(early[1]));
  EXPECT_EQ(watch_.Current(), early[1]);
  EXPECT_EQ(early[0]->subscriptions[0].ttl, Milliseconds(3'600'000));
  EXPECT_EQ(early[1]->source_revision, "r2");
  EXPECT_EQ(early[1]->digest, Digest({{"s.yaml", kBetter}}));
  EXPECT_EQ(script_->FirstAsked(2), (std::vector<std::string>{"", "1"}));
  EXPECT_EQ(watch_.State().accepted, 2u);
}

TEST_F(ConfigWatchTest, BadRevisionIsRefusedWholeAndTheRunningOneStays) {
  watch_.Start();
  script_->PutText("1", kGood);
  script_->PutText("2", kBad);
  EXPECT_THAT(recorder_.Await(2), ElementsAre("accepted 1", "refused 2"));
  WatchState state = watch_.State();
  EXPECT_EQ(state.current->source_revision, "r1");
  EXPECT_EQ(state.accepted, 1u);
  EXPECT_EQ(state.refused, 1u);
  EXPECT_TRUE(state.newest_refused);
  ASSERT_TRUE(state.last_refused);
  EXPECT_THAT(state.last_refused->faults, SizeIs(2));
  EXPECT_EQ(state.last_refused->source_revision, "r2");
  EXPECT_EQ(state.last_refused->digest, Digest({{"s.yaml", kBad}}));

  script_->PutText("3", kBetter);
  recorder_.Await(3);
  watch_.Stop();
  state = watch_.State();
  EXPECT_FALSE(state.newest_refused);
  EXPECT_EQ(state.current->source_revision, "r3");
  EXPECT_TRUE(state.last_refused);
}

TEST_F(ConfigWatchTest, WaitsForAFirstGoodRevision) {
  watch_.Start();
  script_->PutText("1", kBad);
  script_->PutText("2", "");
  EXPECT_THAT(recorder_.Await(2), ElementsAre("refused 2", "refused 1"));
  EXPECT_EQ(watch_.Current(), nullptr);
  script_->PutText("3", kGood);
  recorder_.Await(3);
  EXPECT_NE(watch_.Current(), nullptr);
}

TEST_F(ConfigWatchTest, BackToTheRunningRevisionIsTakenAgain) {
  watch_.Start();
  script_->PutText("1", kGood);
  script_->PutText("2", kBad);
  script_->PutText("1", kGood);
  EXPECT_THAT(recorder_.Await(3), ElementsAre("accepted 1", "refused 2", "accepted 1"));
  watch_.Stop();
  EXPECT_FALSE(watch_.State().newest_refused);
}

TEST_F(ConfigWatchTest, SameContentUnderAnotherRevisionIsNoNews) {
  watch_.Start();
  script_->PutText("1", kGood);
  script_->PutText("2", kGood);
  script_->PutText("3", kBetter);
  recorder_.Await(2);
  watch_.Stop();
  EXPECT_EQ(watch_.State().accepted, 2u);
}

TEST_F(ConfigWatchTest, FailureIsToldOnceAndTheSourceAskedFromTheBeginning) {
  watch_.Start();
  script_->PutText("1", kGood);
  script_->Put(Failed{"away"});
  script_->Put(Failed{"away"});
  script_->PutText("1", kGood);
  EXPECT_THAT(recorder_.Await(3), ElementsAre("accepted 1", "failed away", "recovered"));
  watch_.Stop();
  EXPECT_EQ(watch_.State().source_failures, 2u);
  EXPECT_EQ(watch_.State().source_failure, "");
  EXPECT_EQ(script_->FirstAsked(4), (std::vector<std::string>{"", "1", "", ""}));
  EXPECT_NE(watch_.Current(), nullptr);
}

TEST_F(ConfigWatchTest, SourceThatWaitsItselfIsAskedAtOnce) {
  watch_.Start();
  script_->PutText("1", kGood);
  script_->Put(Failed{"gone", true, true});
  script_->Put(Unchanged());
  EXPECT_THAT(recorder_.Await(3), ElementsAre("accepted 1", "failed gone", "recovered"));
  watch_.Stop();
  EXPECT_EQ(script_->FirstAsked(3), (std::vector<std::string>{"", "1", "1"}));
}

TEST_F(ConfigWatchTest, StopEndsTheWaitAndTheBackOff) {
  watch_.Start();
  script_->Put(Failed{"no right", false});  // the longest back-off
  recorder_.Await(1);
  watch_.Stop();
  watch_.Stop();
  EXPECT_EQ(watch_.State().source_failure, "no right");
}

TEST_F(ConfigWatchTest, StopWithoutStart) {
  watch_.Stop();
  EXPECT_EQ(watch_.DescribeSource(), "script");
}

TEST(ConfigWatchFileTest, FileChangesReachListeners) {
  const TempDirectory dir;
  Recorder recorder;
  ConfigWatch watch(std::make_unique<FileSource>(dir / "s.yaml"), {}, &recorder);
  watch.Start();
  EXPECT_THAT(recorder.Await(1), ElementsAre(StartsWith("failed ")));
  dir.Write("s.tmp", kGood);
  std::filesystem::rename(dir / "s.tmp", dir / "s.yaml");
  EXPECT_THAT(recorder.Await(3), ElementsAre(StartsWith("failed "), "recovered", "accepted 1"));
  dir.Write("s.yaml", kBad);
  EXPECT_EQ(recorder.Await(4)[3], "refused 2");
  dir.Write("s.yaml", kBetter);
  EXPECT_EQ(recorder.Await(5)[4], "accepted 1");
  EXPECT_EQ(watch.Current()->subscriptions[0].ttl, Milliseconds(7'200'000));
  std::filesystem::remove(dir / "s.yaml");
  EXPECT_THAT(recorder.Await(6)[5], HasSubstr("No such file"));
  EXPECT_NE(watch.Current(), nullptr);
}

}  // namespace
}  // namespace posthorn::config
