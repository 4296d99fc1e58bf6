// Random histories of a whole worker without Kafka and HTTP: outcomes, pauses, rebalances, revisions, failing stores
// and sinks, a membership in doubt. What must hold in each of them is checked at every step and at the end.
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

constexpr std::uint64_t kFirstSeed = 20'261'121;
constexpr std::uint64_t kHistories = test::Histories(2'000, 80);

class History : DispatcherBench {
 public:
  explicit History(std::uint64_t seed)
      : DispatcherBench({}, Lane::kMaxUnfinished, seed % 3 == 0 ? 2048 : 1 + seed % 4), random_(seed) {
    readers.most = Below(3);
    dead_letters.on_written = [this](const DeadLetter& letter) {
      MarkFinished({{letter.subscription, letter.partition}, letter.record->offset()});
    };
    dead_letters.keep = false;  // they would count as memory in use
    // Commits are judged when they are noted: everything below must be finished by then.
    offsets.on_update = [this](const OffsetStore::Key& key, const Position& position) {
      const std::lock_guard lock(mutex_);
      const auto log = logs.find(key.partition);
      if (log == logs.end()) return;
      for (const auto& entry : log->second->entries) {
        if (entry.offset < position.next && finished_.count({key, entry.offset}) == 0) {
          Fault("position " + std::to_string(position.next) + " of " + key.subscription + " passes unfinished " +
                std::to_string(entry.offset));
        }
      }
    };
  }

  std::vector<std::string> Run() {
    dispatcher->SetDrainLimit(milliseconds(0));
    snapshot.instances = Chance(50) ? std::optional<std::uint32_t>(1) : std::nullopt;
    dispatcher->OnPartitionCounts({{"a", 2}, {"b", 2}});
    SetRate();
    for (const auto* name : {"p", "q", "r"}) {
      if (Chance(70)) AddSubscription(name);
    }
    ApplyAndSettle();
    for (int step = 0; step < 80 && faults_.empty(); ++step) Step();
    Finish();
    return faults_;
  }

 private:
  using Message = std::pair<OffsetStore::Key, Offset>;

  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool Chance(std::uint64_t percent) { return Below(100) < percent; }
  void Fault(std::string what) { faults_.push_back(std::move(what)); }

  void SetRate() {
    static constexpr const char* kRates[] = {"2/s", "7/s", "30/s", "90/min"};
    NoteRate();
    SetLimit("l", kRates[Below(4)]);
    NoteRate();
  }
  /// What the fleet may do in the running window: the highest of the rates in force during it.
  void NoteRate() {
    const auto label = ratelimit::LabelAt(world.clock.Read().wall);
    for (const auto& limit : snapshot.limits) {
      auto& allowed = allowed_[label];
      allowed = std::max(allowed, limit.max_rate.Total(label));
    }
  }

  void AddSubscription(const std::string& name) {
    auto& sub = Sub(name, Chance(50) ? "a" : "b");
    sub.max_in_flight = static_cast<std::uint32_t>(1 + Below(4));
    sub.limit = Chance(60) ? "l" : "";
    sub.backoff.initial = milliseconds(50);
    sub.backoff.max = milliseconds(400);
    sub.backoff.jitter = Chance(50) ? config::Jitter::kFull : config::Jitter::kNone;
    sub.ttl = Chance(30) ? seconds(2) : seconds(3'600);
    if (Chance(30)) sub.max_attempts = static_cast<std::uint32_t>(1 + Below(3));
    sub.retry_after_max = seconds(1);
    sub.paused = Chance(10);
  }

  void ApplyAndSettle() {
    std::map<OffsetStore::Key, int> awaited;
    for (const auto& view : dispatcher->Subscriptions()) {
      const auto still = std::find_if(snapshot.subscriptions.begin(), snapshot.subscriptions.end(), [&](const auto& s) {
        return s.name == view.config->name && s.topic == view.config->topic;
      });
      if (still != snapshot.subscriptions.end()) continue;
      for (const auto& lane : view.lanes) {
        const OffsetStore::Key key{view.config->name, lane.partition};
        awaited[key] = offsets.drops(key) + 1;
      }
    }
    if (Chance(20)) offsets.FailFetches(1);
    Apply();
    for (const auto& [key, n] : awaited) {
      if (!AwaitDrops(key, n)) Fault("a removed subscription was not closed");
    }
    if (!AwaitLanes()) Fault("lanes were not opened");
  }

  void Step() {
    switch (Below(16)) {
      case 0:
      case 1: {
        const TopicPartition id{Chance(50) ? "a" : "b", static_cast<std::int32_t>(Below(2))};
        if (Chance(20)) Log(id)->Skip(3);
        if (Log(id)->entries.size() < 24) Append(id, 1 + Below(4));
        break;
      }
      case 2:
      case 3:
        world.Advance(milliseconds(Below(700)));
        break;
      case 4: {
        const TopicPartition id{Chance(50) ? "a" : "b", static_cast<std::int32_t>(Below(2))};
        if (feeds.count(id) == 0) {
          if (Chance(20)) offsets.FailFetches(1);
          Assign({id});
        } else if (Chance(50)) {
          const bool lost = Chance(30);
          const bool flush_fails = Chance(20);
          offsets.FailFlushes(flush_fails);
          Revoke({id}, lost);
          offsets.FailFlushes(false);
          if (lost || flush_fails) OnlyWhatIsStoredCounts(id);
          CheckNothingOf(id);
        }
        break;
      }
      case 5: {
        if (snapshot.subscriptions.empty()) break;
        auto& sub = snapshot.subscriptions[Below(snapshot.subscriptions.size())];
        if (Chance(50)) {
          sub.paused = !sub.paused;
        } else {
          sub.max_in_flight = static_cast<std::uint32_t>(1 + Below(5));
          sub.limit = Chance(60) ? "l" : "";
        }
        ApplyAndSettle();
        break;
      }
      case 6: {
        const std::string name(1, static_cast<char>('p' + Below(3)));
        if (Chance(40)) {
          RemoveSub(name);
        } else {
          AddSubscription(name);
        }
        ApplyAndSettle();
        break;
      }
      case 7:
        if (Chance(50)) SetRate(), ApplyAndSettle();
        break;
      case 8:
        dead_letters.mode = static_cast<test::FakeDeadLetters::Mode>(Below(3));
        break;
      case 9:
        if (!dead_letters.held.empty()) AnswerDeadLetter(Chance(70));
        break;
      case 10:
        if (Chance(40)) guard.Suspect();
        break;
      case 11:
        guard.Confirm();
        world.RunReady();
        break;
      case 12:
        if (Chance(20)) world.StandStill(seconds(25));
        offsets.WriteAll();
        break;
      default:
        for (auto n = Below(4); n > 0; --n) AnswerOne(/*always_ok=*/false);
    }
  }

  void AnswerOne(bool always_ok) {
    auto& sender = *senders[Below(2)];
    if (sender.pending.empty()) return;
    const auto index = Below(sender.pending.size());
    const auto request = sender.pending[index].request;
    if (feeds.count(request.partition) == 0) Fault("a request for a partition that was given back");
    if (!sender.pending[index].written) {
      if (!sender.Write(index)) {
        world.RunReady();
        return;
      }
      if (!guard.Confirmed()) Fault("written while the membership was in doubt");
      NoteWrite(request);
    }
    switch (always_ok ? 0 : Below(8)) {
      case 4:
        sender.Finish(index, test::Respond(Verdict::kRetry, 500));
        break;
      case 5:
        sender.Finish(index, test::Respond(Verdict::kOverload, 503, milliseconds(Below(3'000))));
        break;
      case 6:
        sender.Finish(index, test::Respond(Verdict::kRejected, 422));
        break;
      case 7:
        break;  // written, no answer yet
      default:
        Deliver(sender, index);
    }
    world.RunReady();
  }

  void Deliver(test::FakeSender& sender, std::size_t index) {
    const auto request = sender.pending[index].request;
    const Message message{{request.subscription, request.partition}, request.offset};
    MarkFinished(message);
    delivered_.insert(message);
    sender.Finish(index, test::Respond(Verdict::kDelivered, 200));
  }

  /// The partition went without its last positions: what was delivered since the stored ones comes again.
  void OnlyWhatIsStoredCounts(const TopicPartition& id) {
    std::erase_if(delivered_, [&](const Message& message) {
      const auto& key = message.first;
      const auto offset = message.second;
      if (key.partition != id) return false;
      const auto stored = offsets.stored_position(key);
      if (!stored) return true;
      if (offset < stored->next) return false;
      const auto state = std::get<CommitState>(DecodeCommitState(stored->next, stored->metadata));
      return std::none_of(state.finished.begin(), state.finished.end(),
                          [&](const auto& run) { return run.first <= offset && offset < run.end; });
    });
  }

  void NoteWrite(const test::WrittenRequest& request) {
    if (delivered_.count({{request.subscription, request.partition}, request.offset}) != 0) {
      Fault("delivered twice: " + request.subscription + " " + std::to_string(request.offset));
    }
    NoteRate();
    for (const auto& sub : snapshot.subscriptions) {
      if (sub.name != request.subscription || sub.limit.empty()) continue;
      const auto label = ratelimit::LabelAt(world.clock.Read().wall);
      if (++written_[label] > allowed_[label]) Fault("more attempts than the label allows");
    }
  }

  void MarkFinished(const Message& message) {
    const std::lock_guard lock(mutex_);
    finished_.insert(message);
  }
  void AnswerDeadLetter(bool ok) {
    dead_letters.Answer(ok);
    world.RunReady();
  }

  void CheckNothingOf(const TopicPartition& id) {
    for (const auto& sender : senders) {
      for (const auto& pending : sender->pending) {
        if (pending.request.partition == id) Fault("a request outlived its partition");
      }
    }
  }

  /// The world gets well: everything must come to its end.
  void Finish() {
    dead_letters.mode = test::FakeDeadLetters::Mode::kWrite;
    while (!dead_letters.held.empty()) AnswerDeadLetter(true);
    guard.Confirm();
    for (auto& sub : snapshot.subscriptions) sub.paused = false;
    ApplyAndSettle();
    for (const auto* topic : {"a", "b"}) {
      for (std::int32_t i = 0; i < 2; ++i) {
        if (feeds.count({topic, i}) == 0) Assign({{topic, i}});
      }
    }
    for (int round = 0; round < 2'000 && faults_.empty() && !AllFinished(); ++round) {
      while (pending() > 0) {
        AnswerOne(true);
        // A request that was written before and never answered.
        for (auto& sender : senders) {
          for (std::size_t i = 0; i < sender->pending.size(); ++i) {
            if (!sender->pending[i].written) continue;
            Deliver(*sender, i--);
          }
        }
        world.RunReady();
      }
      guard.Confirm();
      world.Advance(milliseconds(100));
    }
    if (!AllFinished()) Fault("not everything came to its end");
    std::vector<TopicPartition> all;
    for (const auto& [id, feed] : feeds) all.push_back(id);
    const auto views = dispatcher->Subscriptions();
    Revoke(all);
    for (const auto& view : views) {
      for (const auto& lane : view.lanes) {
        const auto& last = Log(lane.partition)->entries;
        if (last.empty()) continue;
        if (offsets.stored({view.config->name, lane.partition}).value_or(0) < last.back().offset + 1) {
          Fault("the last position was not stored");
        }
      }
      for (const auto& stats : view.shared->per_shard) {
        if (stats->in_flight.value() + stats->waiting_for_permit.value() + stats->retrying.value() != 0) {
          Fault("a gauge did not return to 0");
        }
      }
      if (view.shared->slots.used() != 0) Fault("a slot was kept");
    }
    if (memory->used != 0 || memory->parts != 0) Fault("memory was kept");
    if (readers.too_many != 0) Fault("more readers than there are");
    if (readers.open() != 0) Fault("a reader was kept");
    const auto written = Written().size();
    world.Advance(seconds(5));
    if (pending() != 0 || Written().size() != written) Fault("something went on after everything was given back");
  }

  bool AllFinished() {
    for (const auto& view : dispatcher->Subscriptions()) {
      for (const auto& lane : view.lanes) {
        const auto& entries = Log(lane.partition)->entries;
        if (!entries.empty() && lane.next <= entries.back().offset) return false;  // again, after a lost partition
      }
    }
    const std::lock_guard lock(mutex_);
    for (const auto& sub : snapshot.subscriptions) {
      for (const auto& [id, log] : logs) {
        if (id.topic != sub.topic) continue;
        for (const auto& entry : log->entries) {
          if (finished_.count({{sub.name, id}, entry.offset}) == 0) return false;
        }
      }
    }
    return pending() == 0;
  }

  std::mt19937_64 random_;
  std::mutex mutex_;
  std::set<Message> finished_;
  std::set<Message> delivered_;  // and never to be sent again
  std::vector<std::string> faults_;
  std::map<ratelimit::Label, std::int64_t> allowed_;
  std::map<ratelimit::Label, std::int64_t> written_;
};

class HistoriesTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(HistoriesTest, NothingIsLostAndNothingGoesOnAfterItsEnd) {
  const auto part = kHistories / 4;
  for (std::uint64_t i = 0; i < part; ++i) {
    const auto seed = kFirstSeed + GetParam() * part + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    const auto faults = history.Run();
    for (const auto& fault : faults) ADD_FAILURE() << fault;
    if (!faults.empty()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, HistoriesTest, ::testing::Range<std::uint64_t>(0, 4));

}  // namespace
}  // namespace posthorn::delivery
