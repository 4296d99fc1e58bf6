// What the command writes into the slots, against workers played by hand.
#include "worker/cli/replay_errand.h"

#include <gmock/gmock.h>

#include "tests/support/fake_offset_store.h"

namespace posthorn::cli {
namespace {

using delivery::DecodeReplaySlot;
using delivery::EncodeReplaySlot;
using delivery::OffsetStore;
using delivery::ReplayOutcome;
using delivery::ReplayRequest;
using delivery::ReplaySlot;
using delivery::TopicPartition;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const TopicPartition kA{"orders", 0};
const TopicPartition kB{"orders", 1};
constexpr std::int64_t kFarAway = 7'000'000'000'000;
constexpr milliseconds kForEver{3'600'000};

OffsetStore::Key Slot(const TopicPartition& partition) { return {std::string(delivery::kReplaySlots), partition}; }

class ReplayErrandTest : public ::testing::Test {
 protected:
  ReplayErrand::Outcomes Run(milliseconds patience = kForEver) {
    ReplayErrand::Parts parts;
    parts.offsets = &offsets;
    parts.members = [this](std::string* why) {
      if (!members) *why = "no broker answers";
      return members;
    };
    parts.pause = [this] {
      ASSERT_LT(++pauses, 100);
      if (on_pause) on_pause();
    };
    return ReplayErrand(std::move(parts)).Run(requests, patience, problems);
  }
  std::optional<ReplaySlot> In(const TopicPartition& partition) {
    const auto stored = offsets.stored_position(Slot(partition));
    return stored ? DecodeReplaySlot(stored->metadata) : std::nullopt;
  }
  void Put(const TopicPartition& partition, const ReplaySlot& slot) {
    offsets.Store(Slot(partition), slot.request.from, EncodeReplaySlot(slot));
  }
  void Answer(const TopicPartition& partition, const ReplayOutcome& outcome) {
    auto slot = In(partition);
    ASSERT_TRUE(slot && !slot->outcome);
    slot->outcome = outcome;
    Put(partition, *slot);
  }

  test::FakeOffsetStore offsets;
  std::optional<std::size_t> members = 2;
  std::map<TopicPartition, ReplayRequest> requests{{kA, {"id1", "billing", 5, std::nullopt, kFarAway}},
                                                   {kB, {"id1", "billing", 7, 9, kFarAway}}};
  std::function<void()> on_pause;
  int pauses = 0;
  std::vector<std::string> problems;
};

TEST_F(ReplayErrandTest, WorkersAreAskedAndTheirAnswersTaken) {
  on_pause = [this] {
    if (pauses == 1) Answer(kB, {20, 7, 2, ""});
    if (pauses == 3) Answer(kA, {0, 0, 0, "because"});
  };
  const auto outcomes = Run();
  EXPECT_THAT(outcomes, ElementsAre(std::pair(kA, ReplayOutcome{0, 0, 0, "because"}),
                                    std::pair(kB, ReplayOutcome{20, 7, 2, ""})));
  EXPECT_EQ(pauses, 3);
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(ReplayErrandTest, ASlotThatIsTakenIsWaitedFor) {
  requests.erase(kB);
  const ReplaySlot other{{"id0", "audit", 1, std::nullopt, kFarAway}, std::nullopt};
  Put(kA, other);
  on_pause = [&] {
    if (pauses < 3) {
      EXPECT_EQ(In(kA), other) << "left alone";
    }
    if (pauses == 3) Answer(kA, {9, 1, 8, ""});
    if (pauses == 4) Answer(kA, {30, 5, 25, ""});
  };
  EXPECT_EQ(Run().at(kA), (ReplayOutcome{30, 5, 25, ""}));
}

TEST_F(ReplayErrandTest, ARequestNobodyWaitsForAnyMoreAndGarbageAreOverwritten) {
  Put(kA, {{"id0", "audit", 1, std::nullopt, 1}, std::nullopt});
  offsets.Store(Slot(kB), 3, "whatever");
  on_pause = [this] {
    Answer(kA, {30, 5, 25, ""});
    Answer(kB, {30, 7, 2, ""});
  };
  EXPECT_THAT(Run(), SizeIs(2));
}

TEST_F(ReplayErrandTest, ARequestThatWasOverwrittenIsAskedAgain) {
  requests.erase(kB);
  on_pause = [this] {
    if (pauses == 1) Put(kA, {{"id0", "audit", 1, std::nullopt, kFarAway}, std::nullopt});
    if (pauses == 2) Answer(kA, {9, 1, 8, ""});
    if (pauses == 3) {
      EXPECT_EQ(In(kA)->request.id, "id1");
      Answer(kA, {30, 5, 25, ""});
    }
  };
  EXPECT_EQ(Run().at(kA), (ReplayOutcome{30, 5, 25, ""}));
}

TEST_F(ReplayErrandTest, WithoutAnAnswerTheRequestIsTakenBackAndSaid) {
  Put(kB, {{"id0", "audit", 1, std::nullopt, kFarAway}, std::nullopt});
  EXPECT_THAT(Run(milliseconds(0)), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("orders/0: no worker has answered"),
                                    HasSubstr("orders/1: a replay of audit is not done yet")));
  EXPECT_THAT(In(kA)->outcome->refused, HasSubstr("taken back"));
  EXPECT_EQ(In(kB)->request.id, "id0");
  EXPECT_FALSE(In(kB)->outcome);
}

TEST_F(ReplayErrandTest, WhatKafkaDoesNotTellIsSaid) {
  members.reset();
  offsets.FailFetches(100);
  EXPECT_THAT(Run(milliseconds(0)), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("Kafka does not answer"), HasSubstr("Kafka does not answer")));
}

TEST_F(ReplayErrandTest, WithoutAWorkerThePositionsAreMoved) {
  members = 0;
  const delivery::CommitState ahead{{{12, 14}}, {}};
  offsets.Store({"billing", kA}, 10, EncodeCommitState(10, ahead));
  offsets.Store({"billing", kB}, 20);
  EXPECT_THAT(Run(),
              ElementsAre(std::pair(kA, ReplayOutcome{10, 5, 7, ""}), std::pair(kB, ReplayOutcome{20, 7, 2, ""})));
  EXPECT_EQ(offsets.stored_position({"billing", kA}), (delivery::Position{5, ""}));
  const auto moved = *offsets.stored_position({"billing", kB});
  EXPECT_EQ(moved.next, 7);
  EXPECT_EQ(std::get<delivery::CommitState>(delivery::DecodeCommitState(7, moved.metadata)).finished,
            (std::vector<delivery::OffsetRange>{{9, 20}}));
  EXPECT_FALSE(offsets.stored_position(Slot(kA))) << "nobody was asked";
}

TEST_F(ReplayErrandTest, TheLastWorkerMayGoWhileItIsWaitedFor) {
  requests.erase(kB);
  offsets.Store({"billing", kA}, 10);
  on_pause = [this] { members = 0; };
  const auto outcomes = Run();
  EXPECT_EQ(outcomes.at(kA), (ReplayOutcome{10, 5, 5, ""}));
  EXPECT_THAT(In(kA)->outcome->refused, HasSubstr("no worker"));
}

}  // namespace
}  // namespace posthorn::cli
