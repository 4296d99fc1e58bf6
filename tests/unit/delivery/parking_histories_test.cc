// Random histories of a worker that parks, with what it holds lost at any step: nothing is lost, a key stays in order,
// a parked key finds its way back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <variant>

#include "tests/support/histories.h"
#include "tests/unit/delivery/dispatcher_fixture.h"

namespace posthorn::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kParkingFirstSeed = 20'261'123;
constexpr std::uint64_t kParkingHistories = test::Histories(300, 40);
constexpr std::size_t kBound = 10;
constexpr std::size_t kMessages = 60;  // of each partition
const std::vector<TopicPartition> kAll{{"a", 0}, {"a", 1}, {"f.retry", 0}, {"f.retry", 1}};

class ParkingHistory : DispatcherBench {
 public:
  explicit ParkingHistory(std::uint64_t seed) : DispatcherBench("f.retry", kBound), random_(seed) {
    dead_letters.on_written = [this](const DeadLetter& letter) {
      finished_.insert({letter.subscription, letter.partition, letter.record->source_offset()});
    };
    dead_letters.keep = false;
    on_ask_progress = [this](const std::string& subscription) { asked_.insert(subscription); };
  }

  std::string Run() {
    dispatcher->SetDrainLimit(milliseconds(0));
    dispatcher->OnPartitionCounts({{"a", 2}, {"f.retry", 2}});
    for (const auto* name : {"k", "n"}) {
      auto& sub = Sub(name, "a");
      sub.ordering = *name == 'k' ? config::Ordering::kKey : config::Ordering::kNone;
      sub.max_in_flight = static_cast<std::uint32_t>(2 + Below(20));
      sub.backoff.initial = milliseconds(100);
      sub.backoff.max = milliseconds(400);
      sub.max_attempts = 8;
    }
    Apply();
    Assign(kAll);
    for (int step = 0; step < 250 && fault_.empty(); ++step) Step();
    Finish();
    return fault_;
  }
  [[nodiscard]] std::size_t parked() const { return retry.states.size(); }
  [[nodiscard]] std::size_t kills() const { return kills_; }

 private:
  struct Message {
    std::string subscription;
    TopicPartition partition;
    Offset offset;
    auto operator<=>(const Message&) const = default;
  };

  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  void Step() {
    switch (Below(20)) {
      case 0:
      case 1: {
        const TopicPartition id{"a", static_cast<std::int32_t>(Below(2))};
        for (auto n = 1 + Below(8); n > 0 && Log(id)->entries.size() < kMessages; --n) {
          const auto key = Below(6);
          Log(id)->Append("v", -1, key == 0 ? std::nullopt : std::optional(std::string(key, 'k')));
        }
        feeds[id]->Wake();
        break;
      }
      case 2:
      case 3:
        world.Advance(milliseconds(Below(600)));
        break;
      case 4:
        offsets.WriteAll();
        break;
      case 5:
        if (Below(3) == 0) retry.mode = static_cast<test::FakeRetrySink::Mode>(Below(3));
        break;
      case 6:
        if (Below(6) == 0) dead_ = !dead_;
        break;
      case 7:
        if (Below(4) == 0) Kill();
        break;
      case 8:
        AnswerHeld(1);
        break;
      default:
        AnswerOne();
    }
    world.RunReady();
    TellProgress();
  }

  void AnswerOne() {
    auto& sender = *senders[Below(2)];
    if (sender.pending.empty()) return;
    const auto index = Below(sender.pending.size());
    const auto request = sender.pending[index].request;
    if (!sender.Write(index)) return;
    const Message message{request.subscription, request.partition, request.offset};
    Sent(message);
    // Some messages never get through, some at the third try.
    const auto kind = std::hash<std::string>{}(message.subscription +
                                               std::to_string(message.offset * 2 + message.partition.partition)) %
                      16;
    const bool fails = dead_ || kind == 0 || (kind == 1 && request.attempt < 3);
    if (!fails) finished_.insert(message);
    sender.Finish(index, test::Respond(fails ? Verdict::kRetry : Verdict::kDelivered, fails ? 500 : 200));
  }

  void Sent(const Message& message) {
    if (message.subscription != "k") return;
    const auto& entries = Log(message.partition)->entries;
    const auto& key = entries[static_cast<std::size_t>(message.offset)].key;
    if (!key) return;
    for (Offset before = 0; before < message.offset; ++before) {
      if (entries[static_cast<std::size_t>(before)].key != key) continue;
      if (finished_.count({"k", message.partition, before}) == 0) {
        fault_ = std::to_string(message.offset) + " overtakes " + std::to_string(before);
      }
    }
  }

  /// The process, or a part of it, is gone with all it holds. What was being written is there or is not.
  void Kill() {
    ++kills_;
    std::vector<TopicPartition> lost;
    for (const auto& id : kAll) {
      if (Below(2) == 0) lost.push_back(id);
    }
    if (lost.empty()) return;
    Revoke(lost, /*lost=*/Below(4) != 0);
    AnswerHeld(1000);
    asked_.clear();
    Assign(lost);
  }

  void AnswerHeld(std::size_t most) {
    for (; most > 0 && !retry.held.empty(); --most) {
      const auto how = Below(4);
      retry.Answer(/*written=*/how != 0, /*acknowledged=*/how > 1);
    }
  }

  void TellProgress() {
    for (const auto& name : std::exchange(asked_, {})) {
      const TopicPartition home{"f.retry", RetryPartition(name, 2)};
      const auto position = offsets.stored_position({name, home});
      if (!position) continue;
      RetryProgress progress;
      progress.next = position->next;
      progress.end = Log(home)->end;
      progress.finished = std::get<CommitState>(DecodeCommitState(position->next, position->metadata)).finished;
      for (auto& shard : shards) shard->Release(name, progress);
    }
    world.RunReady();
  }

  void Finish() {
    dead_ = false;
    retry.mode = test::FakeRetrySink::Mode::kWrite;
    const auto all = 2 * (Log(kAll[0])->entries.size() + Log(kAll[1])->entries.size());
    for (int round = 0; round < 200 && fault_.empty(); ++round) {
      AnswerHeld(1000);
      while (pending() > 0 && fault_.empty()) AnswerOne(), world.RunReady();
      world.Advance(milliseconds(500));
      offsets.WriteAll();
      TellProgress();
      if (finished_.size() == all && AllStored()) return;
    }
    if (!fault_.empty()) return;
    fault_ = finished_.size() < all ? std::to_string(all - finished_.size()) + " messages were lost"
                                    : "positions do not reach the ends, or keys stay parked";
  }

  bool AllStored() {
    for (const auto* name : {"k", "n"}) {
      for (const auto& id : kAll) {
        if (id.topic == "f.retry" && id.partition != RetryPartition(name, 2)) continue;
        const auto position = offsets.stored_position({name, id});
        if (!position || position->next != Log(id)->end || !position->metadata.empty()) return false;
      }
    }
    return true;
  }

  std::mt19937_64 random_;
  bool dead_ = false;
  std::size_t kills_ = 0;
  std::set<std::string> asked_;
  std::set<Message> finished_;
  std::string fault_;
};

TEST(ParkingHistoriesTest, NothingIsLostAndKeysStayInOrder) {
  std::size_t parked = 0;
  std::size_t kills = 0;
  for (std::uint64_t seed = kParkingFirstSeed; seed < kParkingFirstSeed + kParkingHistories; ++seed) {
    ParkingHistory history(seed);
    const auto fault = history.Run();
    ASSERT_EQ(fault, "") << "seed " << seed;
    parked += history.parked();
    kills += history.kills();
  }
  EXPECT_GT(parked, kParkingHistories * 5) << "hardly anything was parked";
  EXPECT_GT(kills, kParkingHistories);
}

}  // namespace
}  // namespace posthorn::delivery
