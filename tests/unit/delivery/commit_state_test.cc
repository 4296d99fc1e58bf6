#include "worker/delivery/commit_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "tests/support/commit_state_fuzz.h"

namespace posthorn::delivery {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::int64_t kNowMs = 1'795'000'000'000;

CommitState Decoded(Offset next, const std::string& metadata) {
  const auto decoded = DecodeCommitState(next, metadata);
  if (const auto* state = std::get_if<CommitState>(&decoded)) return *state;
  ADD_FAILURE() << metadata << ": " << ToString(std::get<CommitStateFault>(decoded));
  return {};
}

CommitStateFault FaultOf(Offset next, std::string_view metadata) {
  const auto decoded = DecodeCommitState(next, metadata);
  if (const auto* fault = std::get_if<CommitStateFault>(&decoded)) return *fault;
  ADD_FAILURE() << "accepted: " << metadata;
  return CommitStateFault::kForeign;
}

void ExpectPrefix(const CommitState& whole, const CommitState& part) {
  // What was left out is what is farthest ahead.
  ASSERT_LE(part.tried.size(), whole.tried.size());
  EXPECT_TRUE(std::equal(part.tried.begin(), part.tried.end(), whole.tried.begin()));
  if (part.finished == whole.finished) return;
  EXPECT_LE(part.tried.size(), 2u) << "tried ones are left out first: they get the last bytes";
  ASSERT_LE(part.finished.size(), whole.finished.size());
  for (std::size_t i = 0; i < part.finished.size(); ++i) {
    EXPECT_EQ(part.finished[i].first, whole.finished[i].first);
    if (i + 1 < part.finished.size()) {
      EXPECT_EQ(part.finished[i].end, whole.finished[i].end);
    } else {
      EXPECT_LE(part.finished[i].end, whole.finished[i].end);
    }
  }
}

TEST(CommitStateTest, NothingToTellIsEmptyMetadata) {
  EXPECT_EQ(EncodeCommitState(7, {}), "");
  EXPECT_TRUE(Decoded(7, "").empty());
}

TEST(CommitStateTest, ComesBackAsItWas) {
  const CommitState state{{{101, 102}, {110, 200}}, {{100, 3, kNowMs, kNowMs + 4000}, {105, 0, kNowMs - 5, kNowMs}}};
  const auto metadata = EncodeCommitState(100, state);
  EXPECT_THAT(metadata, StartsWith("ph1:"));
  EXPECT_LE(metadata.size(), 50u);
  EXPECT_EQ(Decoded(100, metadata), state);
}

TEST(CommitStateTest, TheFormatStands) {
  // Written by the first version; every later one must read it.
  const CommitState runs{{{43, 45}, {46, 90}}, {{42, 2, 1'795'000'000'000, 1'795'000'002'000}}};
  EXPECT_EQ(EncodeCommitState(42, runs), "ph1:AAIBAQErAAKA+LLlvWigH4WXn5c=");
  EXPECT_EQ(Decoded(42, "ph1:AAIBAQErAAKA+LLlvWigH4WXn5c="), runs);
  const CommitState bitmap{{{43, 45}, {46, 47}}, {{42, 2, 1'795'000'000'000, 1'795'000'002'000}}};
  EXPECT_EQ(EncodeCommitState(42, bitmap), "ph1:AQEBCwACgPiy5b1ooB+LoQFY");
  EXPECT_EQ(Decoded(42, "ph1:AQEBCwACgPiy5b1ooB+LoQFY"), bitmap);
}

TEST(CommitStateTest, FarRunsAreRunsAndAlternatingOnesABitmap) {
  CommitState far{{{1'000'000, 2'000'000'000}}, {}};
  EXPECT_LE(EncodeCommitState(0, far).size(), 4u + 24u);
  EXPECT_EQ(Decoded(0, EncodeCommitState(0, far)), far);
  CommitState alternating;
  for (Offset offset = 1; offset < 10'000; offset += 2) alternating.finished.push_back({offset, offset + 1});
  const auto metadata = EncodeCommitState(0, alternating);
  EXPECT_LE(metadata.size(), 1'700u) << "a bit each";
  EXPECT_EQ(Decoded(0, metadata), alternating);
}

TEST(CommitStateTest, WhatDoesNotFitIsLeftOutTriedOnesFirst) {
  CommitState state;
  for (Offset offset = 0; offset < 10'000; ++offset) {
    if (offset % 2 == 1) {
      state.finished.push_back({offset, offset + 1});
    } else {
      state.tried.push_back({offset, 5, kNowMs + offset * 7, kNowMs + offset * 7 + 30'000});
    }
  }
  const auto metadata = EncodeCommitState(0, state);
  EXPECT_LE(metadata.size(), kMaxCommitMetadata);
  EXPECT_GT(metadata.size(), kMaxCommitMetadata - 20);
  const auto part = Decoded(0, metadata);
  EXPECT_EQ(part.finished, state.finished);
  EXPECT_GT(part.tried.size(), 250u);
  ExpectPrefix(state, part);
}

TEST(CommitStateTest, TheRunBehindAReplayStaysWhateverLiesBeforeIt) {
  CommitState state;
  for (Offset offset = 1; offset < 8'000; offset += 2) state.finished.push_back({offset, offset + 1});
  const OffsetRange behind{1'000'000, 90'000'000'000};
  state.finished.push_back(behind);
  auto part = Decoded(0, EncodeCommitState(0, state));
  EXPECT_EQ(part.finished.back(), behind);
  EXPECT_GT(part.finished.size(), 1'400u) << "and what fits beside it";
  state.finished.push_back({behind.end + 1, behind.end + 2});
  part = Decoded(0, EncodeCommitState(0, state));
  EXPECT_EQ(part.finished.back(), behind);
}

TEST(CommitStateTest, FinishedOnesFarthestAheadAreLeftOutLast) {
  CommitState state;
  for (Offset offset = 1; offset < 400'000; offset += 100) state.finished.push_back({offset, offset + 1 + offset % 3});
  state.tried.push_back({0, 1, kNowMs, kNowMs});
  const auto metadata = EncodeCommitState(0, state);
  EXPECT_LE(metadata.size(), kMaxCommitMetadata);
  const auto part = Decoded(0, metadata);
  EXPECT_GT(part.finished.size(), 1'000u);
  ExpectPrefix(state, part);
}

TEST(CommitStateTest, TimesOutsideTheRangeAreBroughtIntoIt) {
  const CommitState state{{}, {{5, 1, -3, std::numeric_limits<std::int64_t>::max()}}};
  const auto decoded = Decoded(5, EncodeCommitState(5, state));
  ASSERT_THAT(decoded.tried, SizeIs(1));
  EXPECT_EQ(decoded.tried[0].first_seen_ms, 0);
  EXPECT_EQ(decoded.tried[0].due_ms, 7'258'118'400'000);
}

TEST(CommitStateTest, WhatIsNotOursIsNotTrusted) {
  EXPECT_EQ(FaultOf(0, "NO_METADATA"), CommitStateFault::kForeign);
  EXPECT_EQ(FaultOf(0, "phony"), CommitStateFault::kForeign);
  EXPECT_EQ(FaultOf(0, "ph:"), CommitStateFault::kForeign);
  EXPECT_EQ(FaultOf(0, "phx:AAAA"), CommitStateFault::kForeign);
  EXPECT_EQ(FaultOf(0, "ph2:AAAA"), CommitStateFault::kOtherVersion);
  EXPECT_EQ(FaultOf(0, "ph11:AAAA"), CommitStateFault::kOtherVersion);
  EXPECT_EQ(FaultOf(0, "ph1:"), CommitStateFault::kDamaged);
  EXPECT_EQ(FaultOf(0, "ph1:AAAA"), CommitStateFault::kDamaged);
  EXPECT_EQ(FaultOf(0, std::string(4097, 'A')), CommitStateFault::kForeign);
  const CommitState state{{{3, 9}}, {{1, 1, kNowMs, kNowMs}}};
  const auto metadata = EncodeCommitState(1, state);
  EXPECT_EQ(FaultOf(0, metadata), CommitStateFault::kDamaged) << "the position was moved, the metadata stayed";
  EXPECT_EQ(FaultOf(-1, metadata), CommitStateFault::kDamaged);
}

TEST(CommitStateTest, ABitmapThatDoesNotBeginWithAFinishedOneIsNotTrusted) {
  const std::string ours("\1\0\1\x81", 4);  // 1 and 8 are finished
  EXPECT_THAT(DecodeCommitState(1, SealCommitState(1, ours)), testing::VariantWith<CommitState>(testing::_));
  EXPECT_EQ(FaultOf(1, SealCommitState(1, std::string("\1\0\1\x80", 4))), CommitStateFault::kDamaged);
  EXPECT_EQ(FaultOf(1, SealCommitState(1, std::string("\1\0\0", 3))), CommitStateFault::kDamaged);
}

TEST(CommitStateTest, ParkedKeysAlwaysFit) {
  std::mt19937_64 random(5);
  for (const std::size_t keys : {1U, 2U, 100U, 300U, 1000U, 4000U, 4096U}) {
    std::set<std::uint16_t> slots;
    while (slots.size() < keys) slots.insert(static_cast<std::uint16_t>(random() % ParkedKeys::kSlots));
    CommitState state;
    state.parked = {{slots.begin(), slots.end()}, Offset{1} << 40};
    EXPECT_EQ(Decoded(7, EncodeCommitState(7, state)), state);
    if (keys == 1) {
      EXPECT_LE(EncodeCommitState(7, state).size(), 4U + 24U);
    }

    // Beside more than would fit without them.
    for (Offset offset = 10; offset < 100'000; offset += 2 + static_cast<Offset>(random() % 9)) {
      state.finished.push_back({offset, offset + 1});
    }
    for (Offset offset = 0; offset < 1000; ++offset) state.tried.push_back({100'000 + offset, 1, kNowMs, kNowMs});
    const auto metadata = EncodeCommitState(7, state);
    EXPECT_LE(metadata.size(), kMaxCommitMetadata);
    const auto back = Decoded(7, metadata);
    EXPECT_EQ(back.parked, state.parked);
    EXPECT_GT(back.finished.size(), 500U);
    ExpectPrefix(state, back);
    test::FuzzCommitState(reinterpret_cast<const std::uint8_t*>(metadata.data()), metadata.size());
  }
}

TEST(CommitStateTest, EveryDamagedCharacterIsNoticed) {
  const CommitState state{{{3, 9}, {12, 13}}, {{1, 1, kNowMs, kNowMs}, {2, 7, kNowMs, kNowMs + 60'000}}};
  const auto metadata = EncodeCommitState(1, state);
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    for (const char c : {'A', 'z', '0', '=', '-', '\0', '\xff'}) {
      auto damaged = metadata;
      if (damaged[i] == c) continue;
      damaged[i] = c;
      EXPECT_FALSE(std::holds_alternative<CommitState>(DecodeCommitState(1, damaged))) << damaged;
    }
    if (i == 0) continue;  // nothing stored
    EXPECT_FALSE(std::holds_alternative<CommitState>(DecodeCommitState(1, metadata.substr(0, i)))) << i;
  }
}

TEST(CommitStateTest, RandomStatesComeBackOrLoseWhatIsFarthestAhead) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 1'000; ++round) {
    const auto next = static_cast<Offset>(random() % (std::uint64_t{1} << (1 + random() % 60)));
    CommitState state;
    auto at = next;
    auto seen = kNowMs;
    const auto length = random() % (std::uint64_t{1} << (random() % 13));
    const auto share = random() % 101;
    const auto longest = 1 + random() % (std::uint64_t{1} << (random() % 12));
    for (std::uint64_t i = 0; i < length; ++i) {
      if (random() % 100 < share) {
        const auto end = at + 1 + static_cast<Offset>(random() % longest);
        state.finished.push_back({at, end});
        at = end + 1;
      } else {
        seen += static_cast<std::int64_t>(random() % 2'000) - 500;
        state.tried.push_back({at, static_cast<std::uint32_t>(random() % (1U << (random() % 32))), seen,
                               seen + static_cast<std::int64_t>(random() % 120'000)});
        at += 1 + static_cast<Offset>(random() % longest);
      }
    }
    const auto metadata = EncodeCommitState(next, state);
    ASSERT_LE(metadata.size(), kMaxCommitMetadata);
    ASSERT_EQ(metadata.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:"),
              std::string::npos);
    const auto part = Decoded(next, metadata);
    ExpectPrefix(state, part);
    if (metadata.size() < kMaxCommitMetadata - 100) {
      ASSERT_EQ(part, state) << "round " << round;
    }
    test::FuzzCommitState(reinterpret_cast<const std::uint8_t*>(metadata.data()), metadata.size());
  }
}

TEST(CommitStateTest, RandomGarbageIsRefusedOrInOrder) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes(random() % 40, '\0');
    // Small numbers, so that much of it means something.
    const auto bits = 1 + random() % 8;
    for (auto& byte : bytes) byte = static_cast<char>(random() % (1U << bits));
    test::FuzzCommitState(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace posthorn::delivery
