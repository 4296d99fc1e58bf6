#include "worker/delivery/retry_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

#include "tests/support/retry_record_fuzz.h"

namespace posthorn::delivery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<HeaderView> Views(const OwnedHeaders& headers) {
  std::vector<HeaderView> views;
  for (const auto& [name, value] : headers) views.push_back({name, value});
  return views;
}

RetryState Some() {
  RetryState state;
  state.subscription = "billing";
  state.source = {"orders", 7};
  state.source_offset = 41;
  return state;
}

RetryHeaders Decoded(const OwnedHeaders& headers) {
  const auto decoded = DecodeRetryHeaders(Views(headers));
  if (const auto* retry = std::get_if<RetryHeaders>(&decoded)) return *retry;
  ADD_FAILURE() << ToString(std::get<RetryFault>(decoded));
  return {};
}

RetryFault FaultOf(const OwnedHeaders& headers) {
  const auto decoded = DecodeRetryHeaders(Views(headers));
  if (const auto* fault = std::get_if<RetryFault>(&decoded)) return *fault;
  ADD_FAILURE() << "accepted";
  return RetryFault::kForeign;
}

TEST(RetryRecordTest, OwnHeadersFirstThenWhatIsKnown) {
  auto state = Some();
  state.source_timestamp_ms = 1'795'000'000'000;
  state.attempts = 3;
  state.first_seen_ms = 1'795'000'000'001;
  state.due_ms = 1'795'000'060'000;
  EXPECT_THAT(
      EncodeRetryHeaders(state, {{"trace", "t1"}, {"none", std::nullopt}, {"trace", "t2"}}),
      ElementsAre(Pair("trace", "t1"), Pair("none", std::nullopt), Pair("trace", "t2"), Pair("posthorn-retry", "1"),
                  Pair("posthorn-subscription", "billing"), Pair("posthorn-topic", "orders"),
                  Pair("posthorn-partition", "7"), Pair("posthorn-offset", "41"), Pair("posthorn-attempts", "3"),
                  Pair("posthorn-timestamp", "1795000000000"), Pair("posthorn-first-seen", "1795000000001"),
                  Pair("posthorn-due", "1795000060000")));
}

TEST(RetryRecordTest, ComesBackAsItWas) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto any = [&](std::uint64_t below) { return static_cast<std::int64_t>(random() % below); };
    auto state = Some();
    state.source_offset = any(std::uint64_t{1} << (1 + any(62)));
    state.source.partition = static_cast<std::int32_t>(any(1U << 31));
    state.attempts = static_cast<std::uint32_t>(random());
    if (any(2) == 0) state.source_timestamp_ms = any(std::uint64_t{1} << 42);
    if (any(2) == 0) state.first_seen_ms = any(std::uint64_t{1} << 42);
    if (any(2) == 0) state.due_ms = any(std::uint64_t{1} << 42);
    state.fresh_ttl = any(2) == 0;
    std::vector<HeaderView> own;
    for (auto left = any(4); left > 0; --left) {
      // A message may have been in a retry topic before, or pretend it.
      own.push_back({any(2) == 0 ? "posthorn-retry" : "posthorn-offset",
                     any(3) == 0 ? std::nullopt : std::optional<std::string_view>("1")});
    }
    const auto decoded = Decoded(EncodeRetryHeaders(state, own));
    EXPECT_EQ(decoded.state, state);
    EXPECT_EQ(decoded.own, own.size());
  }
}

TEST(RetryRecordTest, SaysWhatIsWrong) {
  const auto good = EncodeRetryHeaders(Some(), {});
  EXPECT_EQ(FaultOf({}), RetryFault::kForeign);
  EXPECT_EQ(FaultOf({{"posthorn-offset", "1"}}), RetryFault::kForeign);
  const auto with = [&](const std::string& name, std::optional<std::string> value) {
    auto headers = good;
    for (auto& header : headers) {
      if (header.first == name) header.second = value;
    }
    return headers;
  };
  EXPECT_EQ(FaultOf(with("posthorn-retry", "2")), RetryFault::kOtherVersion);
  EXPECT_EQ(FaultOf(with("posthorn-retry", std::nullopt)), RetryFault::kOtherVersion);
  for (const auto* value : {"", "-1", "+1", " 1", "1 ", "1x", "99999999999999999999"}) {
    EXPECT_EQ(FaultOf(with("posthorn-offset", value)), RetryFault::kDamaged) << value;
    EXPECT_EQ(FaultOf(with("posthorn-partition", value)), RetryFault::kDamaged) << value;
    EXPECT_EQ(FaultOf(with("posthorn-attempts", value)), RetryFault::kDamaged) << value;
  }
  EXPECT_EQ(FaultOf(with("posthorn-partition", "2147483648")), RetryFault::kDamaged);
  EXPECT_EQ(FaultOf(with("posthorn-subscription", "")), RetryFault::kDamaged);
  EXPECT_EQ(FaultOf(with("posthorn-topic", std::nullopt)), RetryFault::kDamaged);
  for (std::size_t i = 1; i < good.size(); ++i) {
    auto headers = good;
    headers.erase(headers.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(FaultOf(headers), RetryFault::kDamaged) << good[i].first;
    headers = good;
    headers.push_back(good[i]);
    EXPECT_EQ(FaultOf(headers), RetryFault::kDamaged) << "twice " << good[i].first;
  }
  auto headers = good;
  headers.emplace_back("posthorn-first-seen", "7258118400001");
  EXPECT_EQ(FaultOf(headers), RetryFault::kDamaged);
  headers.back() = {"posthorn-fresh-ttl", "yes"};
  EXPECT_EQ(FaultOf(headers), RetryFault::kDamaged);
}

TEST(RetryRecordTest, WhatALaterVersionAddsIsPassedOver) {
  auto headers = EncodeRetryHeaders(Some(), {});
  headers.emplace_back("posthorn-mood", "fine");
  EXPECT_EQ(Decoded(headers).state, Some());
}

TEST(RetryRecordTest, ALetterThatIsDeliveredAgainStartsAnew) {
  const auto state = StartAnew("billing", {"orders", 7}, 41, 1000);
  EXPECT_EQ(state.attempts, 0U);
  EXPECT_FALSE(state.first_seen_ms || state.due_ms);
  EXPECT_THAT(EncodeRetryHeaders(state, {}), Contains(Pair("posthorn-fresh-ttl", "true")));
}

TEST(RetryRecordTest, GarbageIsRefusedOrComesBackTheSame) {
  std::mt19937_64 random(11);
  const auto headers = EncodeRetryHeaders(StartAnew("billing", {"orders", 7}, 41, 1000), {{"trace", "t1"}});
  std::string good;
  for (const auto& [name, value] : headers) good += name + '\0' + *value + '\0';
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    for (auto changes = random() % 4; changes > 0; --changes) {
      const auto at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
      }
      if (bytes.empty()) break;
    }
    test::FuzzRetryHeaders(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(RetryRecordTest, ASubscriptionHasOnePartition) {
  std::map<std::int32_t, int> used;
  for (int i = 0; i < 1200; ++i) {
    const auto partition = RetryPartition("subscription-" + std::to_string(i), 12);
    ASSERT_GE(partition, 0);
    ASSERT_LT(partition, 12);
    ++used[partition];
  }
  for (const auto& [partition, count] : used) EXPECT_NEAR(count, 100, 50) << partition;
  // Written down in topics: never another one.
  EXPECT_EQ(RetryPartition("billing", 12), 4);
}

}  // namespace
}  // namespace posthorn::delivery
