#include "worker/fleet/control_wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/support/control_wire_fuzz.h"

namespace posthorn::fleet {
namespace {

using ratelimit::Epoch;
using ratelimit::Grant;

ReportMessage SomeReport() {
  ReportMessage message{"orders-1",
                        {0xFFEE'0000'1234'5678ULL, ratelimit::SlotClaim{2, 1'793'000'001, 1'793'000'012}, {}}};
  message.report.limits.push_back({"billing", {1'793'000'000'123ULL, 77}, 1'793'000'000, 12, 500, 11, 9, true, false});
  message.report.limits.push_back({"mail", {}, 1'793'000'001, 0, -3, 0, 0, false, true});
  return message;
}

LogMessage SomeGrants() {
  const auto rate = ratelimit::MaxRate::Parse("12.5/s", nullptr).value();
  LogMessage message{"orders-0", {}};
  message.records.emplace_back(Epoch{1'793'000'000'123ULL, 42, true});
  message.records.emplace_back(Grant{"billing", 7, {9, 1}, 1'793'000'000, {3, 4, 0, 3}, {rate, 4, 17}});
  message.records.emplace_back(Grant{"billing", 8, {9, 2}, 1'793'000'000, {9, 9, 12, 9}, {rate, 4, 17}});
  message.records.emplace_back(Grant{"mail", 8, {9, 3}, 1'793'000'000, {}, {rate, 0, 18}});
  return message;
}

LogMessage SomeScheduled() {
  auto message = SomeGrants();
  const auto rate = ratelimit::MaxRate::Parse("500/s", nullptr).value();
  for (std::size_t i = 1; i < message.records.size(); ++i) {
    std::get<Grant>(message.records[i]).terms.next = ratelimit::Terms::Next{1'793'000'002, rate, 5};
  }
  message.records.push_back(SomeGrants().records[1]);
  return message;
}

TEST(ControlWireTest, TermsThatChangeAtALabelAreOfANewerVersion) {
  EXPECT_EQ(Encode(SomeGrants())[3], 1);
  EXPECT_EQ(Encode(SomeScheduled())[3], 2);
  EXPECT_EQ(std::get<LogMessage>(DecodeLog(Encode(SomeScheduled()))), SomeScheduled());
}

TEST(ControlWireTest, WhatIsWrittenIsRead) {
  const auto report = DecodeReport(Encode(SomeReport()));
  ASSERT_TRUE(std::holds_alternative<ReportMessage>(report));
  EXPECT_EQ(std::get<ReportMessage>(report), SomeReport());
  const auto log = DecodeLog(Encode(SomeGrants()));
  ASSERT_TRUE(std::holds_alternative<LogMessage>(log));
  EXPECT_EQ(std::get<LogMessage>(log), SomeGrants());
}

TEST(ControlWireTest, ExtremesSurvive) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  ReportMessage report{"", {~0ULL, {}, {}}};
  report.report.limits.push_back({"a", {~0ULL, ~0ULL}, kLeast, kMost, kLeast, kMost, ~0ULL, false, false});
  report.report.limits.push_back({"b", {}, kMost, kLeast, kMost, kLeast, 0, false, false});
  EXPECT_EQ(std::get<ReportMessage>(DecodeReport(Encode(report))), report);
  LogMessage log{"x", {Grant{"a", 1, {1, 1}, kLeast, {kMost, kLeast, kMost, 0}, {}}}};
  EXPECT_EQ(std::get<LogMessage>(DecodeLog(Encode(log))), log);
}

TEST(ControlWireTest, OthersAreToldApart) {
  const auto fault = [](std::string_view bytes) { return std::get<WireFault>(DecodeLog(bytes)); };
  EXPECT_EQ(fault(""), WireFault::kForeign);
  EXPECT_EQ(fault("{\"hello\": \"world\"}"), WireFault::kForeign);
  EXPECT_EQ(fault(Encode(SomeReport())), WireFault::kForeign) << "a report among the grants";
  auto newer = Encode(SomeGrants());
  newer[3] = 3;
  EXPECT_EQ(fault(newer), WireFault::kNewer);
}

TEST(ControlWireTest, EveryBrokenBitIsNoticed) {
  for (const auto& bytes : {Encode(SomeGrants()), Encode(SomeScheduled()), Encode(SomeReport())}) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto broken = bytes;
      broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_TRUE(std::holds_alternative<WireFault>(DecodeLog(broken))) << bit;
      EXPECT_TRUE(std::holds_alternative<WireFault>(DecodeReport(broken))) << bit;
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_TRUE(std::holds_alternative<WireFault>(DecodeLog(std::string_view(bytes).substr(0, size))));
      EXPECT_TRUE(std::holds_alternative<WireFault>(DecodeReport(std::string_view(bytes).substr(0, size))));
    }
  }
}

// With a checksum that fits: the structure has to be refused, or to be one.
TEST(ControlWireTest, NothingThatFitsItsChecksumIsReadAmiss) {
  std::mt19937_64 random(7);
  for (const auto& whole : {Encode(SomeGrants()), Encode(SomeScheduled()), Encode(SomeReport())}) {
    const auto good = whole.substr(0, whole.size() - 4);
    for (int run = 0; run < 3'000; ++run) {
      auto bytes = good;
      for (auto changes = random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      test::FuzzControlRecord(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

TEST(ControlWireTest, AFurtherGrantIsSmall) {
  auto message = SomeGrants();
  message.records.resize(2);
  std::get<Grant>(message.records[1]).shares.assign(10, 100);
  const auto one = Encode(message).size();
  for (int i = 0; i < 100; ++i) message.records.push_back(message.records[1]);
  EXPECT_LE((Encode(message).size() - one) / 100, 40U);
}

}  // namespace
}  // namespace posthorn::fleet
