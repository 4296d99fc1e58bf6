#include "config/sources/config_watch.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <variant>

#include "config/rfc3339.h"
#include "config/sources/file_source.h"
#include "config/sources/last_good.h"
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
  void OnScheduled(const SnapshotPtr& snapshot) override {
    Add("scheduled " + std::to_string(snapshot->subscriptions.size()));
  }
  void OnLastGood(const SnapshotPtr& snapshot, std::chrono::milliseconds) override {
    Add("last good " + snapshot->source_revision);
  }
  void OnCacheFailed(const std::string& why) override { Add("cache " + why); }

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

// The token of a sidecar that starts after us.
TEST(ConfigWatchFilesTest, ARevisionThatNamesFilesIsTakenOnceTheyAreThere) {
  const TempDirectory dir;
  const auto script = std::make_shared<ScriptedSource::State>();
  Recorder recorder;
  ConfigWatchOptions options;
  options.judge_again = std::chrono::milliseconds(1);
  ConfigWatch watch(std::make_unique<ScriptedSource>(script), std::move(options), &recorder);
  watch.Start();
  const auto header = [&](const char* name) { return std::string(name) + ": file:" + (dir / name).string(); };
  script->PutText("1", OneSubscription("    headers: { " + header("x-a") + ", " + header("x-b") + " }\n"));
  EXPECT_THAT(recorder.Await(1), ElementsAre("refused 2"));
  dir.Write("x-b.new", "secret");
  std::filesystem::rename(dir / "x-b.new", dir / "x-b");
  EXPECT_EQ(recorder.Await(2)[1], "refused 1");
  dir.Write("x-a.new", "secret");
  std::filesystem::rename(dir / "x-a.new", dir / "x-a");
  EXPECT_EQ(recorder.Await(3)[2], "accepted 1");
  EXPECT_FALSE(watch.State().newest_refused);
  EXPECT_EQ(watch.State().refused, 1u);
  watch.Stop();
  EXPECT_THAT(recorder.Await(3), SizeIs(3));
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

// A source that is deaf to the stop: it must hold up nothing.
class StuckSource final : public Source {
 public:
  struct State {
    std::promise<void> asked;
    std::promise<void> let_go;
    std::promise<void> gone;
  };
  explicit StuckSource(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~StuckSource() override { state_->gone.set_value(); }
  Outcome Next(const std::string&, std::chrono::milliseconds, std::stop_token) override {
    state_->asked.set_value();
    state_->let_go.get_future().wait();
    return Changed{{"1", "r1", {{"s.yaml", kGood}}}};
  }
  std::string Describe() const override { return "stuck"; }

 private:
  std::shared_ptr<State> state_;
};

TEST(ConfigWatchStopTest, ASourceThatDoesNotEndIsLeftBehind) {
  const auto state = std::make_shared<StuckSource::State>();
  int heard = 0;
  {
    ConfigWatch watch(std::make_unique<StuckSource>(state), {});
    watch.Listen([&](const SnapshotPtr&) { ++heard; });
    watch.Start();
    state->asked.get_future().wait();
    watch.Stop();
    EXPECT_EQ(watch.DescribeSource(), "stuck");
  }
  auto gone = state->gone.get_future();
  state->let_go.set_value();
  gone.wait();  // whatever it brought came to nobody
  EXPECT_EQ(heard, 0);
}

TEST_F(ConfigWatchTest, ASourceThatThrowsHasFailed) {
  class Throwing final : public Source {
   public:
    Outcome Next(const std::string&, std::chrono::milliseconds, std::stop_token) override {
      throw std::runtime_error("no more of it");
    }
    std::string Describe() const override { return "throwing"; }
  };
  ConfigWatch watch(std::make_unique<Throwing>(), {}, &recorder_);
  watch.Start();
  EXPECT_THAT(recorder_.Await(1)[0], HasSubstr("no more of it"));
}

// ---- effective_at

// The wall clock of a watch, as the test sets it.
class ScheduledWatchTest : public ::testing::Test {
 protected:
  ConfigWatchOptions Options() {
    ConfigWatchOptions options;
    options.wall_clock = [this] { return ratelimit::StartOf(kNow) + ratelimit::Nanoseconds(since_.load()); };
    return options;
  }
  void Advance(std::chrono::nanoseconds by) { since_ += by.count(); }
  static std::string At(ratelimit::Label label, const std::string& ttl) {
    return OneSubscription("    ttl: " + ttl + "\n",
                           "effective_at: " + FormatRfc3339(ratelimit::StartOf(label)) + "\n");
  }
  static constexpr ratelimit::Label kNow = 1'795'248'930;
  std::atomic<std::int64_t> since_{0};
  std::shared_ptr<ScriptedSource::State> script_ = std::make_shared<ScriptedSource::State>();
  Recorder recorder_;
};

TEST_F(ScheduledWatchTest, ARevisionOfTheFutureIsInForceThen) {
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Options(), &recorder_);
  std::vector<SnapshotPtr> announced;
  std::vector<SnapshotPtr> taken;
  watch.ListenScheduled([&](const SnapshotPtr& s) { announced.push_back(s); });
  watch.Listen([&](const SnapshotPtr& s) { taken.push_back(s); });
  watch.Start();
  script_->PutText("1", kGood);
  script_->PutText("2", At(kNow + 2, "2h"));
  EXPECT_THAT(recorder_.Await(2), ElementsAre("accepted 1", "scheduled 1"));
  EXPECT_EQ(watch.State().current->source_revision, "r1");
  ASSERT_NE(watch.State().scheduled, nullptr);
  EXPECT_EQ(watch.State().scheduled->source_revision, "r2");
  EXPECT_EQ(watch.State().late, 0u);
  Advance(std::chrono::seconds(2));
  EXPECT_EQ(recorder_.Await(3)[2], "accepted 1");
  watch.Stop();
  EXPECT_EQ(watch.State().scheduled, nullptr);
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_THAT(announced, ElementsAre(taken[1]));
  EXPECT_EQ(taken[1]->subscriptions[0].ttl, Milliseconds(7'200'000));
}

TEST_F(ScheduledWatchTest, TheNewestRevisionCallsAScheduledOneOff) {
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Options(), &recorder_);
  watch.Start();
  script_->PutText("1", kGood);
  script_->PutText("2", At(kNow + 60, "2h"));
  script_->PutText("3", kBetter);
  EXPECT_THAT(recorder_.Await(3), ElementsAre("accepted 1", "scheduled 1", "accepted 1"));
  EXPECT_EQ(watch.State().scheduled, nullptr);
  script_->PutText("4", At(kNow + 60, "3h"));
  script_->PutText("5", At(kNow + 70, "4h"));
  recorder_.Await(5);
  script_->PutText("6", kBad);
  recorder_.Await(6);
  EXPECT_EQ(watch.State().scheduled->source_revision, "r5") << "a refused revision calls nothing off";
  Advance(std::chrono::seconds(65));
  script_->PutText("7", kGood);
  recorder_.Await(7);
  Advance(std::chrono::seconds(65));
  watch.Stop();
  EXPECT_EQ(watch.State().current->source_revision, "r7");
}

TEST_F(ScheduledWatchTest, PastOrOnShortNoticeIsLate) {
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Options(), &recorder_);
  watch.Start();
  script_->PutText("1", At(kNow - 100, "1h"));
  recorder_.Await(1);
  EXPECT_EQ(watch.State().late, 0u) << "a worker that starts has missed nothing";
  script_->PutText("2", At(kNow, "2h"));
  EXPECT_EQ(recorder_.Await(2)[1], "accepted 1");
  EXPECT_EQ(watch.State().late, 1u);
  Advance(std::chrono::milliseconds(500));
  script_->PutText("3", At(kNow + 1, "3h"));
  EXPECT_EQ(recorder_.Await(3)[2], "scheduled 1");
  EXPECT_EQ(watch.State().late, 2u);
  Advance(std::chrono::milliseconds(500));
  EXPECT_EQ(recorder_.Await(4)[3], "accepted 1");
  Advance(std::chrono::hours(1));
  script_->PutText("4", At(kNow + 1, "4h"));
  EXPECT_EQ(recorder_.Await(5)[4], "accepted 1");
  EXPECT_EQ(watch.State().late, 2u) << "an edit that leaves it in the document";
}

// ---- the last good revision on disk

class LastGoodWatchTest : public ScheduledWatchTest {
 protected:
  ConfigWatchOptions Kept(const std::string& identity = "script") {
    ConfigWatchOptions options = Options();
    options.cache = dir_.path() / "cache";
    options.cache_name = "orders";
    options.source_identity = identity;
    return options;
  }
  // A worker that runs what the source gives, and ends.
  void RunOnce(const std::vector<std::string>& texts) {
    const auto script = std::make_shared<ScriptedSource::State>();
    Recorder recorder;
    ConfigWatch watch(std::make_unique<ScriptedSource>(script), Kept(), &recorder);
    watch.Start();
    for (std::size_t i = 0; i < texts.size(); ++i) script->PutText(std::to_string(i + 1), texts[i]);
    recorder.Await(texts.size());
    const LastGood disk(dir_.path() / "cache", "orders");
    const auto newest = [&] {
      const auto reading = disk.Read();
      const auto& kept = reading.scheduled ? reading.scheduled : reading.in_force;
      return kept ? kept->number : "";
    };
    while (newest() != "r" + std::to_string(texts.size())) std::this_thread::yield();
  }
  const TempDirectory dir_;
};

TEST_F(LastGoodWatchTest, IsTakenWhenTheSourceIsAwayAndReplacedWhenItIsBack) {
  RunOnce({kGood});
  Advance(std::chrono::hours(1));
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &recorder_);
  std::vector<SnapshotPtr> taken;
  watch.Listen([&](const SnapshotPtr& s) { taken.push_back(s); });
  watch.Start();
  script_->Put(Failed{"connection refused"});
  EXPECT_THAT(recorder_.Await(2), ElementsAre("failed connection refused", "last good r1"));
  EXPECT_TRUE(watch.State().last_good);
  EXPECT_GE(std::chrono::steady_clock::now() - watch.State().accepted_at, std::chrono::minutes(59));
  script_->PutText("9", kBetter);
  EXPECT_EQ(recorder_.Await(4)[3], "accepted 1");
  EXPECT_FALSE(watch.State().last_good);
  watch.Stop();
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_EQ(taken[0]->digest, Digest({{"s.yaml", kGood}}));
  EXPECT_EQ(taken[1]->source_revision, "r9");
}

TEST_F(LastGoodWatchTest, IsTakenWhenTheSourceIsSilent) {
  RunOnce({kGood});
  auto options = Kept();
  options.patience = std::chrono::milliseconds(1);
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), std::move(options), &recorder_);
  watch.Start();
  EXPECT_THAT(recorder_.Await(1), ElementsAre("last good r1"));
}

TEST_F(LastGoodWatchTest, IsTakenWhenTheSourceHasABadRevision) {
  RunOnce({kGood});
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &recorder_);
  watch.Start();
  script_->PutText("2", kBad);
  EXPECT_THAT(recorder_.Await(2), ElementsAre("refused 2", "last good r1"));
  EXPECT_TRUE(watch.State().newest_refused);
  script_->PutText("1", kGood);
  EXPECT_EQ(recorder_.Await(3)[2], "accepted 1");
}

TEST_F(LastGoodWatchTest, IsNotTakenWhenTheSourceAnswers) {
  RunOnce({kGood});
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &recorder_);
  watch.Start();
  script_->PutText("2", kBetter);
  recorder_.Await(1);
  script_->Put(Failed{"away"});
  EXPECT_THAT(recorder_.Await(2), ElementsAre("accepted 1", "failed away"));
  watch.Stop();
  EXPECT_EQ(watch.State().accepted, 1u);
}

TEST_F(LastGoodWatchTest, AScheduledOneIsKeptBesideIt) {
  RunOnce({kGood, At(kNow + 50, "2h")});
  {
    ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &recorder_);
    watch.Start();
    script_->Put(Failed{"away"});
    EXPECT_THAT(recorder_.Await(3), ElementsAre("failed away", "last good r1", "scheduled 1"));
    Advance(std::chrono::seconds(51));
    EXPECT_EQ(recorder_.Await(4)[3], "last good r2");
    EXPECT_EQ(watch.State().current->subscriptions[0].ttl, Milliseconds(7'200'000));
  }
  // And when its time came while the worker was down.
  Recorder again;
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &again);
  watch.Start();
  script_->Put(Failed{"away"});
  while (again.Await(2).back() != "last good r2") again.Await(3);
  EXPECT_EQ(watch.State().current->source_revision, "r2");
}

TEST_F(LastGoodWatchTest, RunsUntilTheSourcesFirstRevisionIsInForce) {
  RunOnce({kGood});
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept(), &recorder_);
  std::vector<std::string> told;
  watch.Listen([&](const SnapshotPtr& s) { told.push_back("in force " + s->source_revision); });
  watch.ListenScheduled([&](const SnapshotPtr& s) { told.push_back("to come " + s->source_revision); });
  watch.Start();
  script_->PutText("2", At(kNow + 50, "2h"));
  EXPECT_THAT(recorder_.Await(2), ElementsAre("scheduled 1", "last good r1"));
  EXPECT_EQ(watch.State().scheduled->source_revision, "r2");
  Advance(std::chrono::seconds(51));
  EXPECT_EQ(recorder_.Await(3)[2], "accepted 1");
  watch.Stop();
  EXPECT_THAT(told, ElementsAre("to come r2", "in force r1", "to come r2", "in force r2"));
}

TEST_F(LastGoodWatchTest, OneThatNamesAFileIsTakenOnceItIsThere) {
  const LastGood disk(dir_.path() / "cache", "orders");
  const auto token = dir_ / "token";
  const KeptRevision kept{
      "script", "r1", {}, {{"s.yaml", OneSubscription("    headers: { x-a: file:" + token.string() + " }\n")}}};
  ASSERT_EQ(disk.Keep(&kept, nullptr), "");
  auto options = Kept();
  options.judge_again = std::chrono::milliseconds(1);
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), std::move(options), &recorder_);
  watch.Start();
  script_->Put(Failed{"away"});
  EXPECT_THAT(recorder_.Await(2), ElementsAre("failed away", HasSubstr("is refused")));
  dir_.Write("token.new", "secret");
  std::filesystem::rename(dir_ / "token.new", token);
  EXPECT_EQ(recorder_.Await(3)[2], "last good r1");
}

TEST_F(LastGoodWatchTest, AnotherSourcesOrAFaultyOneCountsAsNone) {
  RunOnce({kGood});
  {
    ConfigWatch watch(std::make_unique<ScriptedSource>(script_), Kept("another"), &recorder_);
    watch.Start();
    script_->Put(Failed{"away"});
    EXPECT_THAT(recorder_.Await(2),
                ::testing::UnorderedElementsAre(HasSubstr("another source: script"), "failed away"));
    watch.Stop();
    EXPECT_EQ(watch.Current(), nullptr);
  }
  const LastGood disk(dir_.path() / "cache", "orders");
  const KeptRevision faulty{"script", "r1", {}, {{"s.yaml", kBad}}};
  ASSERT_EQ(disk.Keep(&faulty, nullptr), "");
  Recorder recorder;
  const auto script = std::make_shared<ScriptedSource::State>();
  ConfigWatch watch(std::make_unique<ScriptedSource>(script), Kept(), &recorder);
  watch.Start();
  script->Put(Failed{"away"});
  EXPECT_THAT(recorder.Await(2)[1], HasSubstr("is refused"));
  watch.Stop();
  EXPECT_EQ(watch.Current(), nullptr);
}

TEST_F(LastGoodWatchTest, ADiskThatTakesNothingIsTold) {
  dir_.Write("file", "");
  auto options = Kept();
  options.cache = dir_ / "file";
  ConfigWatch watch(std::make_unique<ScriptedSource>(script_), std::move(options), &recorder_);
  watch.Start();
  script_->PutText("1", kGood);
  // It cannot be read either; which of the two is told first is not said.
  EXPECT_THAT(recorder_.Await(3),
              ::testing::UnorderedElementsAre("accepted 1", StartsWith("cache "), StartsWith("cache ")));
  watch.Stop();
  EXPECT_NE(watch.State().cache_failure, "");
  EXPECT_NE(watch.Current(), nullptr);
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
