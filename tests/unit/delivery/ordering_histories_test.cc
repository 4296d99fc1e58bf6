// Random histories of one lane under a changing order: what starts has nothing of its key before it or beside it,
// nothing waits without a reason, nothing is sent again after it was finished.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <variant>

#include "tests/support/histories.h"
#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using config::Ordering;

constexpr std::uint64_t kOrderingFirstSeed = 20'261'122;
constexpr std::uint64_t kOrderingHistories = test::Histories(1'000, 100);
constexpr auto kWait = milliseconds(300);

class OrderingHistory : public ShardTest {
 public:
  explicit OrderingHistory(std::uint64_t seed) : random_(seed) {}

  std::string Run() {
    auto& sub = Sub("s");
    sub.max_in_flight = 10'000;
    sub.backoff.initial = kWait;
    sub.backoff.multiplier = 1;
    sub.ordering = static_cast<Ordering>(Below(3));
    fixed_order_ = Below(2) == 0;
    Apply();
    AddPartition();
    AddLane("s");
    for (int step = 0; step < 150 && fault_.empty(); ++step) Step();
    for (int round = 0; round < 500 && fault_.empty() && finished_.size() < Log()->entries.size(); ++round) {
      if (Sub("s").paused) Sub("s").paused = false, Apply();
      while (!sender().pending.empty()) Answer(0, 0);
      world.Advance(kWait);
      Look();
    }
    if (fault_.empty() && finished_.size() < Log()->entries.size()) fault_ = "not everything came to its end";
    return fault_;
  }

 private:
  void TestBody() override {}
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  void Step() {
    switch (Below(10)) {
      case 0:
      case 1:
        for (auto n = 1 + Below(6); n > 0; --n) {
          const auto key = Below(5);
          Log()->Append("v", -1, key == 0 ? std::nullopt : std::optional(std::string(key, 'k')));
        }
        feeds[kPartition]->Wake();
        break;
      case 2:
        world.Advance(milliseconds(Below(400)));
        break;
      case 3:
        if (!fixed_order_) Sub("s").ordering = static_cast<Ordering>(Below(3));
        if (Below(4) == 0) Sub("s").paused = !Sub("s").paused;
        Apply();
        break;
      case 4:
        if (Below(4) == 0) Reopen();
        break;
      default:
        if (!sender().pending.empty()) Answer(Below(sender().pending.size()), Below(8));
    }
    world.RunReady();
    Look();
  }

  void Answer(std::size_t index, std::uint64_t how) {
    const auto offset = sender().pending[index].request.offset;
    if (how == 7) {
      sender().Finish(index, test::Respond(Verdict::kNotSent));
      flying_.erase(offset);
    } else if (sender().Write(index)) {
      flying_.erase(offset);
      if (how < 4) {
        finished_.insert(offset);
        sender().Finish(index, test::Respond(Verdict::kDelivered, 200));
      } else if (how == 4) {
        finished_.insert(offset);
        sender().Finish(index, test::Respond(Verdict::kRejected, 422));
      } else {
        due_[offset] = world.clock.Read().steady + kWait;
        sender().Finish(index, test::Respond(Verdict::kRetry, 500));
      }
    }
    world.RunReady();
    Look();
  }

  /// Another worker goes on with what this one has noted.
  void Reopen() {
    const auto all = [](const Lane&) { return true; };
    shards[0]->CloseLanes(all, true, [] {});
    shards[0]->CancelClosing();
    world.RunReady();
    shards[0]->ForgetLanes(all);
    flying_.clear();
    const auto noted = offsets.noted(Key());
    const auto position = noted ? noted->position : Position{};
    LaneStart start{"s", std::make_shared<LaneStats>(kPartition, position.next), position.next, {}};
    start.known = std::get<CommitState>(DecodeCommitState(position.next, position.metadata));
    shards[0]->AddLane(kPartition, start);
    world.RunReady();
  }

  /// What must be waited for together with `offset`; unset: nothing.
  std::optional<std::string> Turn(Offset offset) {
    if (Sub("s").ordering == Ordering::kPartition) return "";
    if (Sub("s").ordering == Ordering::kNone) return std::nullopt;
    return Log()->entries[static_cast<std::size_t>(offset)].key;
  }

  void Look() {
    const auto before = flying_;
    flying_.clear();
    for (const auto& pending : sender().pending) {
      if (!flying_.insert(pending.request.offset).second) fault_ = "in flight twice";
    }
    for (const auto offset : flying_) {
      if (before.count(offset) == 0) Started(offset);
    }
    // An endpoint that fails a lot is given time; its lanes come back at the next tick at the latest.
    const auto now = world.clock.Read().steady;
    if (Shared("s")->health.restricted()) restricted_at_ = now;
    if (!Sub("s").paused && now - restricted_at_ > milliseconds(250)) NothingWaitsWithoutReason();
  }

  void Started(Offset offset) {
    const auto what = std::to_string(offset);
    if (finished_.count(offset) != 0) fault_ = what + " was finished before";
    if (due_.count(offset) != 0 && due_[offset] > world.clock.Read().steady) fault_ = what + " is not due";
    const auto turn = Turn(offset);
    if (!turn) return;
    for (const auto& entry : Log()->entries) {
      if (entry.offset == offset || Turn(entry.offset) != turn || finished_.count(entry.offset) != 0) continue;
      if (flying_.count(entry.offset) != 0) fault_ = what + " started beside " + std::to_string(entry.offset);
      if (entry.offset < offset) fault_ = what + " started before " + std::to_string(entry.offset);
    }
  }

  void NothingWaitsWithoutReason() {
    std::set<std::string> turns_taken;
    for (const auto offset : flying_) {
      if (const auto turn = Turn(offset)) turns_taken.insert(*turn);
    }
    for (const auto& entry : Log()->entries) {
      if (finished_.count(entry.offset) != 0 || flying_.count(entry.offset) != 0) continue;
      const auto turn = Turn(entry.offset);
      if (turn && !turns_taken.insert(*turn).second) continue;
      const auto due = due_.find(entry.offset);
      if (due == due_.end() || due->second <= world.clock.Read().steady) {
        fault_ = std::to_string(entry.offset) + " waits for nothing";
      }
    }
  }

  std::mt19937_64 random_;
  bool fixed_order_ = false;
  std::set<Offset> flying_;
  std::set<Offset> finished_;
  std::map<Offset, runtime::SteadyTime> due_;
  runtime::SteadyTime restricted_at_{};
  std::string fault_;
};

TEST(OrderingHistoriesTest, OrderHoldsAndNothingElseDoes) {
  for (std::uint64_t seed = kOrderingFirstSeed; seed < kOrderingFirstSeed + kOrderingHistories; ++seed) {
    OrderingHistory history(seed);
    const auto fault = history.Run();
    ASSERT_EQ(fault, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace posthorn::delivery
