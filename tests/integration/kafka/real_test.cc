// The room against a real Kafka: what the embedded broker cannot show. Started by tests/system/kafka_room.sh, which
// puts the address into POSTHORN_TEST_KAFKA and the instance's name for scripts/kafka into POSTHORN_TEST_KAFKA_ID.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/kafka/real_fixture.h"
#include "tests/integration/kafka/recording_worker.h"
#include "worker/kafka/dead_letter_producer.h"
#include "worker/kafka/offset_store.h"
#include "worker/kafka/producer.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::TopicPartition;
using testing::ElementsAre;
using testing::SizeIs;
using Event = RecordingWorker::Event;

std::vector<Offset> Offsets(const std::vector<delivery::RecordPtr>& records) {
  std::vector<Offset> offsets;
  for (const auto& record : records) offsets.push_back(record->offset());
  return offsets;
}

bool Ascending(const std::vector<Offset>& offsets) {
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] <= offsets[i - 1]) return false;
  return true;
}

std::vector<Offset> Range(Offset from, Offset to) {
  std::vector<Offset> offsets;
  for (auto i = from; i < to; ++i) offsets.push_back(i);
  return offsets;
}

class RealTest : public testing::Test {
 protected:
  void SetUp() override {
    bootstrap_ = Environment("POSTHORN_TEST_KAFKA");
    name_ = OwnName();
    topic_ = name_ + ".topic";
  }
  void CreateTopic(int partitions, const std::string& config = {}) {
    ScriptsKafka("create " + topic_ + " --partitions " + std::to_string(partitions) +
                     (config.empty() ? "" : " --config " + config),
                 "topic");
  }
  ClientConfig Config(const std::string& instance = {}, std::map<std::string, std::string> settings = {}) {
    auto deployment = TestDeployment(bootstrap_, name_, instance);
    for (auto& [key, value] : settings) deployment.kafka[key] = value;
    return ClientConfig::From(deployment);
  }
  void Produce(std::int32_t partition, int count, std::size_t size = 20) {
    std::string error;
    const auto producer = Producer::Create(Config(), error);
    ASSERT_NE(producer, nullptr) << error;
    const std::string value(size, 'v');
    for (int i = 0; i < count; ++i) {
      OutgoingRecord record;
      record.topic = topic_;
      record.partition = partition;
      record.value = value;
      ASSERT_TRUE(producer->Send(record)) << producer->last_error();
    }
    ASSERT_TRUE(producer->Flush(60s)) << producer->last_error();
  }
  TopicPartition Partition(std::int32_t partition) const { return {topic_, partition}; }

  std::string bootstrap_;
  std::string name_;
  std::string topic_;
};

// A kafka_member process and what it has printed.
class Member {
 public:
  Member(const std::string& bootstrap, const std::string& fleet, const std::string& topic,
         const std::string& instance = {}, const char* behaviour = nullptr) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(POSTHORN_KAFKA_MEMBER, "kafka_member", bootstrap.c_str(), fleet.c_str(), topic.c_str(),
            instance.empty() ? nullptr : instance.c_str(), behaviour, nullptr);
      _exit(127);
    }
    close(ends[1]);
    reader_ = std::thread([this, in = fdopen(ends[0], "r")] {
      char line[256];
      while (std::fgets(line, sizeof line, in) != nullptr) {
        std::string text(line);
        if (!text.empty() && text.back() == '\n') text.pop_back();
        const std::lock_guard lock(mutex_);
        lines_.push_back(text);
        changed_.notify_all();
      }
      std::fclose(in);
    });
  }
  ~Member() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    reader_.join();
  }
  void Signal(int signal) { kill(pid_, signal); }
  std::vector<std::string> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }
  bool WaitForLine(const std::string& line, std::chrono::milliseconds timeout = 30s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return std::count(lines_.begin(), lines_.end(), line) > 0; });
  }

 private:
  pid_t pid_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::thread reader_;
};

TEST_F(RealTest, MembersComeAndGoWithoutLossOrDisorder) {
  CreateTopic(8);
  for (int p = 0; p < 8; ++p) Produce(p, 200);
  RecordingWorker first(Config(), {topic_}, {});
  ASSERT_TRUE(first.WaitForOwned(8));
  for (int p = 0; p < 8; ++p) ASSERT_TRUE(first.WaitForRecords(Partition(p), 200));
  for (int round = 0; round < 3; ++round) {
    RecordingWorker second(Config(), {topic_}, {});
    ASSERT_TRUE(second.WaitForOwned(4)) << round;
    ASSERT_TRUE(first.WaitForOwned(4)) << round;
    for (const auto& partition : second.Owned()) {
      ASSERT_TRUE(second.WaitForRecords(partition, 200));
      EXPECT_EQ(Offsets(second.Records(partition)), Range(0, 200));
    }
    EXPECT_EQ(first.membership().state().lost_assignments, 0U);
    second.Stop();
    ASSERT_TRUE(first.WaitForOwned(8)) << round;
  }
  for (const auto& event : first.Events()) EXPECT_NE(event.kind, Event::kLost);
  EXPECT_TRUE(first.membership().Confirmed());
}

TEST_F(RealTest, StaticMembersRestartUnnoticed) {
  CreateTopic(4);
  RecordingWorker other(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(other.WaitForOwned(4));
  auto worker =
      std::make_unique<RecordingWorker>(Config("w-1"), std::set<std::string>{topic_}, RecordingWorker::Options{});
  ASSERT_TRUE(worker->WaitForOwned(2));
  ASSERT_TRUE(other.WaitForOwned(2));
  const auto owned = worker->Owned();
  const auto moves = [&] {
    const auto events = other.Events();
    return std::count_if(events.begin(), events.end(), [](const Event& event) { return !event.partitions.empty(); });
  };
  const auto moved = moves();
  for (int round = 0; round < 3; ++round) {
    worker.reset();
    worker =
        std::make_unique<RecordingWorker>(Config("w-1"), std::set<std::string>{topic_}, RecordingWorker::Options{});
    ASSERT_TRUE(worker->WaitForOwned(2)) << round;
    EXPECT_EQ(worker->Owned(), owned);
  }
  EXPECT_EQ(moves(), moved);
}

TEST_F(RealTest, WhatAStaticMemberGaveUpBeforeItDiedIsTakenOver) {
  CreateTopic(4);
  auto first = std::make_unique<Member>(bootstrap_, name_, topic_, "w-0", "stuck");
  ASSERT_TRUE(first->WaitForLine("assigned 4"));
  RecordingWorker second(Config("w-1"), {topic_}, {});
  ASSERT_TRUE(first->WaitForLine("revoked 2"));  // and before it joins again
  first.reset();
  RecordingWorker again(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(again.WaitForOwned(2));
  ASSERT_TRUE(again.WaitFor([&] { return again.Owned().size() + second.Owned().size() == 4; }, 90s));
}

TEST_F(RealTest, AStaticMemberThatLeavesForGoodIsReplacedAtOnce) {
  CreateTopic(4);
  RecordingWorker other(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(other.WaitForOwned(4));
  RecordingWorker worker(Config("w-1"), {topic_}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  ASSERT_TRUE(other.WaitForOwned(2));
  const auto stopped = std::chrono::steady_clock::now();
  worker.membership().Stop(Membership::Farewell::kLeave);
  EXPECT_TRUE(worker.Owned().empty());
  ASSERT_TRUE(other.WaitForOwned(4));
  // Otherwise its session would have to end first.
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, 4s);
  RecordingWorker again(Config("w-1"), {topic_}, {});
  ASSERT_TRUE(again.WaitForOwned(2));
}

TEST_F(RealTest, ANamesakeFencesTheOlderOne) {
  CreateTopic(2);
  RecordingWorker older(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(older.WaitForOwned(2));
  RecordingWorker newer(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(newer.WaitForOwned(2));
  ASSERT_TRUE(older.WaitFor([&] { return older.membership().state().fenced; }));
  ASSERT_TRUE(older.WaitForOwned(0));
  EXPECT_FALSE(older.membership().Confirmed());
  ASSERT_TRUE(older.WaitFor([&] { return older.Events().back().kind == Event::kFenced; }));
  older.Stop();
  EXPECT_EQ(newer.Owned().size(), 2U);
  EXPECT_TRUE(newer.membership().Confirmed());
}

TEST_F(RealTest, AFencedMemberTakesItsPlaceAgainOnceNobodyHasItsName) {
  CreateTopic(2);
  Produce(0, 10);
  RecordingWorker older(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(older.WaitForOwned(2));
  RecordingWorker newer(Config("w-0"), {topic_}, {});
  ASSERT_TRUE(older.WaitFor([&] { return older.membership().state().fenced; }));
  ASSERT_TRUE(newer.WaitForOwned(2));
  newer.Stop();  // its name is its own until its session ends
  ASSERT_TRUE(older.WaitForOwned(2));
  EXPECT_FALSE(older.membership().state().fenced);
  ASSERT_TRUE(older.WaitFor([&] { return older.membership().Confirmed(); }));
  Produce(0, 20);
  ASSERT_TRUE(older.WaitForRecords(Partition(0), 20));
}

TEST_F(RealTest, AStoppedMemberDoesNotTrustItselfWhenItGoesOn) {
  CreateTopic(4);
  Member member(bootstrap_, name_, topic_);
  ASSERT_TRUE(member.WaitForLine("assigned 4"));
  ASSERT_TRUE(member.WaitForLine("may"));
  RecordingWorker worker(Config(), {topic_}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  member.Signal(SIGSTOP);
  ASSERT_TRUE(worker.WaitForOwned(4));
  member.Forget();
  member.Signal(SIGCONT);
  ASSERT_TRUE(member.WaitForLine("may"));
  const auto lines = member.Lines();
  const auto at = [&](const std::string& line) { return std::find(lines.begin(), lines.end(), line); };
  // It gave up what it had before it might go on.
  EXPECT_LT(at("lost 2"), at("may")) << testing::PrintToString(lines);
  EXPECT_EQ(at("gap confirmed"), lines.end()) << testing::PrintToString(lines);
  ASSERT_TRUE(worker.WaitForOwned(2));
}

TEST_F(RealTest, AShortStopIsClearedByTheCoordinator) {
  CreateTopic(4);
  Member member(bootstrap_, name_, topic_);
  ASSERT_TRUE(member.WaitForLine("assigned 4"));
  ASSERT_TRUE(member.WaitForLine("may"));
  member.Signal(SIGSTOP);
  RecordingWorker clock(Config(), {}, {});
  clock.WaitFor([] { return false; }, 4s);  // longer than half a session, shorter than one
  member.Forget();
  member.Signal(SIGCONT);
  ASSERT_TRUE(member.WaitForLine("gap doubtful")) << testing::PrintToString(member.Lines());
  ASSERT_TRUE(member.WaitForLine("may")) << testing::PrintToString(member.Lines());
  const auto lines = member.Lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "lost 4"), 0);
}

TEST_F(RealTest, SeeksAreExactAlsoAcrossGaps) {
  // Aborted by time, compacted by key: the log has holes of every size.
  CreateTopic(1,
              "cleanup.policy=compact --config min.cleanable.dirty.ratio=0.01 --config segment.bytes=1048576 "
              "--config delete.retention.ms=1 --config max.compaction.lag.ms=1000");
  std::string error;
  const auto producer = Producer::Create(Config(), error);
  const std::string value(500, 'x');
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = i % 3 == 0 ? "k" + std::to_string(i) : "k" + std::to_string(i % 7);
    OutgoingRecord record;
    record.topic = topic_;
    record.partition = 0;
    record.key = key;
    record.value = value;
    ASSERT_TRUE(producer->Send(record));
  }
  ASSERT_TRUE(producer->Flush(30s));
  RecordingWorker worker(Config(), {topic_}, {});
  ASSERT_TRUE(worker.WaitForOwned(1));
  // The cleaner comes every 15 s.
  std::vector<Offset> log;
  ASSERT_TRUE(worker.WaitFor(
      [&] {
        worker.SeekTo(Partition(0), 0);
        if (!worker.WaitFor([&] {
              const auto records = worker.Records(Partition(0));
              return !records.empty() && records.back()->offset() == 19'999;
            }))
          return false;
        log = Offsets(worker.Records(Partition(0)));
        return log.size() < 19'000;
      },
      60s));
  ASSERT_TRUE(Ascending(log));
  // The cleaner may come again meanwhile, so the log before and the log after are the bounds of what is right: all that
  // is left at the end was seen, nothing was seen that was not there at the beginning.
  struct Seen {
    Offset target;
    std::vector<Offset> offsets;
  };
  std::vector<Seen> seen;
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const Offset target = static_cast<Offset>(random() % 19'990);
    worker.SeekTo(Partition(0), target);
    ASSERT_TRUE(worker.WaitForRecords(Partition(0), round % 2 == 0 ? 1 : 5)) << round;
    seen.push_back({target, Offsets(worker.Records(Partition(0)))});
  }
  worker.SeekTo(Partition(0), 0);
  ASSERT_TRUE(worker.WaitFor([&] {
    const auto records = worker.Records(Partition(0));
    return !records.empty() && records.back()->offset() == 19'999;
  }));
  const auto left = Offsets(worker.Records(Partition(0)));
  for (const auto& [target, offsets] : seen) {
    ASSERT_TRUE(Ascending(offsets) && offsets.front() >= target) << "sought " << target;
    ASSERT_TRUE(std::includes(log.begin(), log.end(), offsets.begin(), offsets.end())) << "sought " << target;
    ASSERT_TRUE(std::includes(offsets.begin(), offsets.end(), std::lower_bound(left.begin(), left.end(), target),
                              std::upper_bound(left.begin(), left.end(), offsets.back())))
        << "sought " << target;
  }
}

TEST_F(RealTest, PositionsThatAreGoneGoOnAtTheEarliest) {
  CreateTopic(1, "retention.bytes=1048576 --config segment.bytes=1048576 --config file.delete.delay.ms=100");
  Produce(0, 5000, 2000);
  const auto store = [&] {
    std::string error;
    return KafkaOffsetStore::Create(Config(), {}, error);
  }();
  RecordingWorker::Options options;
  options.start = [](const TopicPartition&) { return 1; };
  std::optional<std::pair<Offset, Offset>> bounds;
  {
    RecordingWorker clock(Config(), {}, {});
    ASSERT_TRUE(clock.WaitFor(
        [&] {
          bounds = store->Bounds(Partition(0), 5s);
          return bounds && bounds->first > 1;
        },
        360s));
  }
  RecordingWorker worker(Config(), {topic_}, options);
  ASSERT_TRUE(worker.WaitForRecords(Partition(0), 1));
  EXPECT_EQ(worker.Records(Partition(0))[0]->offset(), bounds->first);
}

TEST_F(RealTest, FetchingGoesOnAfterABrokerRestart) {
  CreateTopic(2);
  Produce(0, 20'000, 200);
  RecordingWorker worker(Config(), {topic_}, {});
  ASSERT_TRUE(worker.WaitForRecords(Partition(0), 1000));
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  store->UseGuard(worker.membership());
  const delivery::OffsetStore::Key key{"billing", Partition(0)};
  const auto restarting = std::async(std::launch::async, [] { ScriptsKafka("--hard", "restart"); });
  std::atomic<int> flushed{0};
  int unanswered = 0;
  int asked = 0;
  for (; asked < 50 || restarting.wait_for(0s) != std::future_status::ready; ++asked) {
    store->Update(key, {asked, ""}, true, true);
    worker.membership().Suspect();
    if (!store->Fetch({key}, 100ms)) ++unanswered;
  }
  store->Flush({key}, [&](bool good) { flushed = good ? 1 : -1; });
  std::cout << unanswered << " of " << asked << " fetches were not answered in time\n";
  Produce(1, 100);
  ASSERT_TRUE(worker.WaitForRecords(Partition(0), 20'000, 60s));
  ASSERT_TRUE(worker.WaitForRecords(Partition(1), 100, 60s));
  EXPECT_TRUE(Ascending(Offsets(worker.Records(Partition(1)))));
  ASSERT_TRUE(worker.WaitFor([&] { return worker.membership().Confirmed(); }, 60s));
  ASSERT_TRUE(worker.WaitFor([&] { return flushed != 0; }, 60s));
  EXPECT_EQ(flushed, 1);
  EXPECT_EQ(store->Fetch({key}, 10s)->at(0)->next, asked - 1);
}

TEST_F(RealTest, PausesInReadingDoNotStallTheFlow) {
  CreateTopic(1);
  Produce(0, 300'000, 200);
  RecordingWorker worker(Config({}, {{"queued.min.messages", "10000"}}), {topic_}, {});
  worker.PauseReading(true);
  ASSERT_TRUE(worker.WaitForOwned(1));
  // 20 000 a second, 5 ms at a time: the steady reader whom 2.0.2 lets wait up to a second.
  std::vector<delivery::RecordPtr> records;
  const auto feed = worker.Feed(Partition(0));
  auto longest = 0ms;
  auto moved = std::chrono::steady_clock::now();
  auto tick = moved;
  for (int round = 0; round < 1000; ++round) {
    tick += 5ms;
    std::this_thread::sleep_until(tick);
    const auto before = records.size();
    worker.OnReader([&] { feed->Read(100, 1 << 20, records); });
    const auto now = std::chrono::steady_clock::now();
    if (records.size() > before) moved = now;
    if (before > 0) longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(now - moved));
  }
  std::cout << "steady reader: " << records.size() << " records in 5 s, longest stall " << longest.count() << " ms\n";
  EXPECT_TRUE(Ascending(Offsets(records)));
  EXPECT_GT(records.size(), 30'000U);
}

TEST_F(RealTest, LogEndIsKnownWhileNobodyReads) {
  CreateTopic(1);
  Produce(0, 20'000, 200);
  RecordingWorker worker(Config({}, {{"queued.min.messages", "1000"}, {"queued.max.messages.kbytes", "256"}}), {topic_},
                         {});
  worker.PauseReading(true);
  ASSERT_TRUE(worker.WaitForOwned(1));
  const auto feed = worker.Feed(Partition(0));
  std::vector<delivery::RecordPtr> records;
  ASSERT_TRUE(worker.WaitFor([&] {
    worker.OnReader([&] { feed->Read(10, 1 << 20, records); });
    return !records.empty();
  }));
  EXPECT_EQ(feed->LogEnd(), 20'000);
  Produce(0, 500);
  EXPECT_TRUE(worker.WaitFor([&] { return feed->LogEnd() == 20'500; }));
}

TEST_F(RealTest, PartitionCountsFollowTheTopic) {
  CreateTopic(2);
  RecordingWorker worker(Config(), {topic_, name_ + ".later"}, {});
  ASSERT_TRUE(worker.WaitForOwned(2));
  const auto told = [&](std::size_t topics) {
    for (const auto& event : worker.Events())
      if (event.kind == Event::kCounts && event.counts.size() == topics) return true;
    return false;
  };
  EXPECT_TRUE(worker.WaitFor([&] { return told(1); }));
  const std::string first = topic_;
  topic_ = name_ + ".later";
  CreateTopic(3);
  EXPECT_TRUE(worker.WaitForOwned(5));
  EXPECT_TRUE(worker.WaitFor([&] { return told(2); }));
}

bool Flushed(KafkaOffsetStore& store, const std::vector<delivery::OffsetStore::Key>& keys) {
  std::promise<bool> done;
  store.Flush(keys, [&](bool good) { done.set_value(good); });
  return done.get_future().get();
}

TEST_F(RealTest, OffsetsOfManySubscriptions) {
  CreateTopic(8);
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  std::vector<delivery::OffsetStore::Key> keys;
  for (int s = 0; s < 300; ++s)
    for (int p = 0; p < 8; ++p) keys.push_back({"s" + std::to_string(s), Partition(p)});
  for (std::size_t i = 0; i < keys.size(); ++i)
    store->Update(keys[i], {static_cast<Offset>(i), "m" + std::to_string(i)}, false, true);
  ASSERT_TRUE(Flushed(*store, keys));
  const auto start = std::chrono::steady_clock::now();
  const auto fetched = store->Fetch(keys, 30s);
  std::cout << "fetched 300 groups of 8 partitions in "
            << std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count()
            << " ms with " << store->stats().handles << " clients\n";
  ASSERT_TRUE(fetched);
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(fetched->at(i), (delivery::Position{static_cast<Offset>(i), "m" + std::to_string(i)}));
  EXPECT_GE(store->stats().handles, 3U);
  EXPECT_EQ(store->stats().waiting, 0U);
}

TEST_F(RealTest, OneRefusedPartitionDoesNotHoldTheOthers) {
  CreateTopic(1);
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key good{"billing", Partition(0)};
  const delivery::OffsetStore::Key bad{"billing", {"no-such-topic", 0}};
  store->Update(good, {5, ""}, true, true);
  store->Update(bad, {5, ""}, true, true);
  ASSERT_TRUE(Flushed(*store, {good}));
  EXPECT_EQ(store->Fetch({good}, 10s)->at(0)->next, 5);
  EXPECT_EQ(store->stats().waiting, 1U);
}

TEST_F(RealTest, QuietOffsetsOutliveTheRetention) {
  CreateTopic(2);
  std::string error;
  auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key quiet{"quiet", Partition(0)};
  const delivery::OffsetStore::Key left{"left", Partition(1)};
  RecordingWorker clock(Config(), {}, {});
  ASSERT_TRUE(clock.WaitFor([&] { return store->stats().retention == 1min; }));
  store->Update(quiet, {5, "q"}, true, true);
  store->Update(left, {6, "l"}, true, true);
  ASSERT_TRUE(Flushed(*store, {quiet, left}));
  store->Drop({left});
  // What is dropped expires and shows that the brokers did look; what is kept does not.
  // (kafka_room.sh runs this beside the other tests, which restart the broker: then there is no answer for a while.)
  const auto fetched = [&](const delivery::OffsetStore::Key& key) {
    std::optional<std::vector<std::optional<delivery::Position>>> answer;
    EXPECT_TRUE(clock.WaitFor([&] { return (answer = store->Fetch({key}, 5s)).has_value(); }, 60s));
    return answer ? answer->at(0) : std::nullopt;
  };
  ASSERT_TRUE(clock.WaitFor([&] { return fetched(left) == std::nullopt; }, 180s));
  EXPECT_EQ(fetched(quiet), (delivery::Position{5, "q"}));
}

TEST_F(RealTest, DeadLettersOfEverySize) {
  std::string error;
  const auto sink = KafkaDeadLetterSink::Create(Config(), error);
  std::atomic<int> good{0};
  std::atomic<int> answers{0};
  for (const std::size_t size : {0U, 200U, 1'000'000U, 1'048'000U}) {
    const std::string value(size, 'x');
    delivery::Record::Parts parts;
    parts.value = value;
    parts.offset = static_cast<Offset>(size);
    delivery::DeadLetter letter;
    letter.record = delivery::Record::Copy(parts);
    letter.partition = {"orders", 1};
    letter.subscription = "billing";
    sink->Write(letter, [&](bool written) {
      good += written ? 1 : 0;
      ++answers;
    });
  }
  RecordingWorker reader(Config(), {sink->topic()}, {});
  ASSERT_TRUE(reader.WaitFor([&] { return answers == 4; }, 60s));
  EXPECT_EQ(good, 4);
  ASSERT_TRUE(reader.WaitForRecords({sink->topic(), 0}, 4));
  std::set<std::string> offsets;
  for (const auto& record : reader.Records({sink->topic(), 0})) {
    EXPECT_EQ(record->value()->size(),
              static_cast<std::size_t>(std::stoul(std::string(*record->FindHeader("posthorn-offset")->value))));
    offsets.insert(std::string(*record->FindHeader("posthorn-offset")->value));
  }
  EXPECT_THAT(offsets, SizeIs(4));
}

}  // namespace
}  // namespace posthorn::kafka
