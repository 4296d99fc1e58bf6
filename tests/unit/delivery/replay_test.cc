// A subscription is taken back while everything else goes on.
#include "worker/delivery/replay.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/unit/delivery/dispatcher_fixture.h"
#include "worker/delivery/replay_inbox.h"

namespace posthorn::delivery {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- slots

ReplaySlot Asked() { return {{"id1", "billing", 7, std::nullopt, 99}, std::nullopt}; }

TEST(ReplaySlotTest, ComesBackAsItWas) {
  auto slot = Asked();
  EXPECT_EQ(EncodeReplaySlot(slot), "ph-replay1 id1 billing 7 - 99 asked") << "workers of other versions read it";
  EXPECT_EQ(DecodeReplaySlot(EncodeReplaySlot(slot)), slot);
  slot.request.to = 12;
  slot.outcome = ReplayOutcome{20, 7, 5, ""};
  EXPECT_EQ(EncodeReplaySlot(slot), "ph-replay1 id1 billing 7 12 99 done 20 7 5");
  EXPECT_EQ(DecodeReplaySlot(EncodeReplaySlot(slot)), slot);
  slot.outcome = ReplayOutcome{0, 0, 0, "why, in words"};
  EXPECT_EQ(DecodeReplaySlot(EncodeReplaySlot(slot)), slot);
}

TEST(ReplaySlotTest, WhateverElseStandsThereIsAFreeSlot) {
  const std::string good = "ph-replay1 id1 billing 7 12 99 done 20 7 5";
  EXPECT_TRUE(DecodeReplaySlot(good));
  for (const std::string_view text :
       {"", " ", "ph1:AAAA", "ph-replay2 id1 billing 7 12 99 asked", "ph-replay1", "ph-replay1 id1 billing 7 12 99",
        "ph-replay1 id1 billing 7 12 99 ", "ph-replay1 id1 billing 7 12 99 refused",
        "ph-replay1 id1 billing -7 - 99 asked", "ph-replay1 id1 billing 7 -1 99 asked", "ph-replay1 id1  7 - 99 asked",
        "ph-replay1 id1 billing 7x - 99 asked", "ph-replay1 id1 billing 7 - 99 asked again",
        "ph-replay1 id1 billing 99999999999999999999 - 99 asked", "ph-replay1 id1 billing 7 12 99 done 20 7",
        "ph-replay1 id1 billing 7 12 99 done 20 7 5 "}) {
    EXPECT_FALSE(DecodeReplaySlot(text)) << text;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    auto text = good;
    text[random() % text.size()] = static_cast<char>(random());
    if (random() % 3 == 0) text.resize(random() % text.size());
    const auto slot = DecodeReplaySlot(text);
    if (slot) {
      EXPECT_EQ(DecodeReplaySlot(EncodeReplaySlot(*slot)), slot) << text;
    }
  }
}

// ---- what is finished afterwards

TEST(RewindToTest, ExactlyWhatWasAskedForIsNotFinishedAnyMore) {
  std::mt19937 random(11);
  constexpr Offset kEnd = 60;
  for (int round = 0; round < 4'000; ++round) {
    const Offset next = static_cast<Offset>(random() % 40);
    std::set<Offset> finished;
    CommitState known;
    for (Offset offset = 0; offset < next; ++offset) finished.insert(offset);
    for (Offset offset = next + 1; offset < kEnd; ++offset) {
      if (random() % 3 == 0) {
        finished.insert(offset);
        if (!known.finished.empty() && known.finished.back().end == offset) {
          ++known.finished.back().end;
        } else {
          known.finished.push_back({offset, offset + 1});
        }
      } else if (random() % 4 == 0) {
        known.tried.push_back({offset, 1, 2, 3});
      }
    }
    const auto from = static_cast<Offset>(random() % 50);
    const auto to = random() % 2 == 0 ? std::nullopt : std::optional(static_cast<Offset>(random() % 70));
    const auto rewound = RewindTo(next, known, from, to);

    auto wanted = finished;
    if (from < next) std::erase_if(wanted, [&](Offset o) { return o >= from && (!to || o < *to); });
    std::set<Offset> after;
    for (Offset offset = 0; offset < rewound.next; ++offset) after.insert(offset);
    Offset at = rewound.next;
    for (const auto& run : rewound.known.finished) {
      ASSERT_GT(run.first, at - (run.first == rewound.known.finished.front().first ? 1 : 0));
      ASSERT_GT(run.end, run.first);
      for (Offset offset = run.first; offset < run.end; ++offset) after.insert(offset);
      at = run.end;
    }
    ASSERT_EQ(after, wanted) << "next " << next << " from " << from << " to " << to.value_or(-1);
    ASSERT_EQ(rewound.again, finished.size() - wanted.size());
    ASSERT_EQ(rewound.known.tried, known.tried);
    // Carried out once more, as after a crash before the answer: the same range, nothing else.
    const auto twice = RewindTo(rewound.next, rewound.known, from, to);
    ASSERT_EQ(twice.next, rewound.next);
    ASSERT_EQ(twice.again, 0u);
  }
}

// ---- live

const OffsetStore::Key kSlot{std::string(kReplaySlots), kA0};

class ReplayTest : public ::testing::Test, protected DispatcherBench {
 protected:
  ReplayTest() {
    Sub("s", "a");
    Sub("other", "a");
    ReplayInbox::Parts parts;
    parts.dispatcher = dispatcher.get();
    parts.offsets = &offsets;
    parts.guard = &guard;
    parts.clock = &world.clock;
    inbox = std::make_unique<ReplayInbox>(parts);
    Apply();
    Append(kA0, 20);
    Assign({kA0, kA1});
    OkAll();
    world.Advance(std::chrono::milliseconds(1250));
    offsets.WriteAll();
  }
  void Ask(Offset from, std::optional<Offset> to = std::nullopt, std::string id = "id1", std::string name = "s") {
    const auto until = world.clock.Read().wall + seconds(60);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(until.time_since_epoch()).count();
    offsets.Store(kSlot, from, EncodeReplaySlot({{std::move(id), std::move(name), from, to, ms}, std::nullopt}));
  }
  void Poll() {
    world.RunBeside([this] { inbox->Poll(); });
    world.RunReady();
  }
  [[nodiscard]] ReplayOutcome Outcome() {
    const auto slot = DecodeReplaySlot(offsets.stored_position(kSlot).value().metadata);
    return slot && slot->outcome ? *slot->outcome : ReplayOutcome{-1, -1, 0, "not answered"};
  }
  /// What was sent since the last call, in order.
  std::vector<std::string> Sent() {
    OkAll();
    auto all = Written();
    std::vector<std::string> fresh;
    for (const auto& line : all) {
      if (++seen_now_[line] > seen_[line]) fresh.push_back(line);
    }
    seen_ = std::exchange(seen_now_, {});
    return fresh;
  }

  std::unique_ptr<ReplayInbox> inbox;

 private:
  std::map<std::string, int> seen_, seen_now_;
};

std::vector<std::string> Range(const std::string& name, Offset from, Offset to) {
  std::vector<std::string> lines;
  for (auto offset = from; offset < to; ++offset) lines.push_back(name + " a/0@" + std::to_string(offset));
  return lines;
}

TEST_F(ReplayTest, EverythingFromAnOffsetOnComesAgainForThisSubscriptionOnly) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(15);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 15, 5, ""}));
  EXPECT_EQ(offsets.stored(kKey), 15) << "stored before the answer";
  EXPECT_EQ(Sent(), Range("s", 15, 20));
  EXPECT_EQ(Next("s", kA0), 20);
  Append(kA0, 2);
  EXPECT_THAT(Sent(), SizeIs(4)) << "both go on";
}

TEST_F(ReplayTest, WithAnEndOnlyWhatLiesBeforeItComesAgain) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(3, 9);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 3, 6, ""}));
  EXPECT_EQ(Sent(), Range("s", 3, 9));
  EXPECT_EQ(Next("s", kA0), 20);
}

TEST_F(ReplayTest, WhatIsFinishedBehindTheEndSurvivesACrash) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(3, 9);
  Poll();
  Revoke({kA0}, /*lost=*/true);
  Assign({kA0});
  const auto sent = Sent();
  EXPECT_EQ(std::set(sent.begin(), sent.end()).size(), 6u);
  for (const auto& line : sent) EXPECT_THAT(Range("s", 3, 9), ::testing::Contains(line));
}

TEST_F(ReplayTest, NothingIsDoneForAnOffsetThatIsStillAhead) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(20);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 20, 0, ""}));
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(ReplayTest, WhatKafkaHasDeletedIsNotPromised) {
  {
    const std::lock_guard lock(bounds_mutex);
    bounds[kA0] = {10, 20};
  }
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(0);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 10, 10, ""}));
}

TEST_F(ReplayTest, ARequestIsCarriedOutOnceHoweverOftenItIsRead) {
  EXPECT_THAT(Sent(), SizeIs(40));
  offsets.FailFlushes(true);
  Ask(15);
  Poll();
  EXPECT_EQ(Outcome().refused, "not answered");
  EXPECT_EQ(Sent(), Range("s", 15, 20));
  Poll();
  EXPECT_EQ(Outcome().refused, "not answered");
  offsets.FailFlushes(false);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 15, 5, ""}));
  EXPECT_THAT(Sent(), IsEmpty());
  Poll();
  EXPECT_THAT(Sent(), IsEmpty()) << "answered: the slot is free";
  Ask(18, std::nullopt, "id2");
  Poll();
  EXPECT_EQ(Sent(), Range("s", 18, 20)) << "another request";
}

TEST_F(ReplayTest, RefusedWithAReason) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(3, std::nullopt, "id1", "nobody");
  Poll();
  EXPECT_THAT(Outcome().refused, HasSubstr("no such subscription"));
  Ask(9, 3, "id2");
  Poll();
  EXPECT_THAT(Outcome().refused, HasSubstr("before the beginning"));
  Ask(3, std::nullopt, "id3");
  world.Advance(seconds(61));
  Poll();
  EXPECT_THAT(Outcome().refused, HasSubstr("too late"));
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(ReplayTest, WhileKafkaIsAwayTheLaneGoesOnAndTheRequestWaits) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Ask(15);
  offsets.FailBounds(1);
  Poll();
  Append(kA0, 1);
  EXPECT_THAT(Sent(), SizeIs(2));
  guard.Suspect();
  Poll();
  EXPECT_EQ(Outcome().refused, "not answered") << "not sure of its membership";
  guard.Confirm();
  world.RunReady();
  Poll();
  EXPECT_EQ(Outcome().after, 15);
  EXPECT_EQ(Sent(), Range("s", 15, 21));
}

TEST_F(ReplayTest, AnAttemptInFlightIsAwaitedAndItsMessageGoesOnAsItWas) {
  EXPECT_THAT(Sent(), SizeIs(40));
  Append(kA0, 1);
  for (auto& sender : senders) {
    for (std::size_t i = 0; i < sender->pending.size(); ++i) {
      if (sender->pending[i].request.subscription != "s") continue;
      if (sender->Write(i)) sender->Finish(i, test::Respond(Verdict::kRetry, 500));
      break;
    }
  }
  world.RunReady();
  Ask(19, 20);
  Poll();
  EXPECT_EQ(Outcome(), (ReplayOutcome{20, 19, 1, ""}));
  OkAll();
  EXPECT_EQ(Next("s", kA0), 20) << "the failed one keeps its backoff";
  world.Advance(seconds(2));
  OkAll();
  EXPECT_EQ(Next("s", kA0), 21);
}

TEST_F(ReplayTest, ALongFinishedRunIsSkippedByASeek) {
  Sub("other").paused = true;
  Apply();
  Append(kA0, 25'000);
  OkAll();
  ASSERT_EQ(Next("s", kA0), 25'020);
  auto& feed = *feeds[kA0];
  feed.seeks.clear();
  Ask(5, 30);
  Poll();
  OkAll();
  EXPECT_EQ(Next("s", kA0), 25'020);
  EXPECT_THAT(feed.seeks, ElementsAre(5, 25'020)) << "not read message by message";
}

}  // namespace
}  // namespace posthorn::delivery
