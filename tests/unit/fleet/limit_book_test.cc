#include "worker/fleet/limit_book.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/delivery/retry_record.h"

namespace posthorn::fleet {
namespace {

using ratelimit::WallTime;
using std::chrono::milliseconds;
using std::chrono::seconds;

WallTime At(ratelimit::Nanoseconds t) { return ratelimit::StartOf(1'793'000'000) + t; }

struct Revision {
  config::Snapshot snapshot;
  Revision& Instances(std::uint32_t n) {
    snapshot.instances = n;
    return *this;
  }
  Revision& Limit(const std::string& name, std::string_view rate) {
    std::erase_if(snapshot.limits, [&](const auto& l) { return l.name == name; });
    config::Limit limit;
    limit.name = name;
    limit.max_rate = ratelimit::MaxRate::Parse(rate, nullptr).value();
    limit.burst = config::Burst::kWindow;
    snapshot.limits.push_back(limit);
    return *this;
  }
  Revision& Sub(const std::string& name, const std::string& topic, const std::string& limit) {
    auto& sub = snapshot.subscriptions.emplace_back();
    sub.name = name;
    sub.topic = topic;
    sub.limit = limit;
    return *this;
  }
  config::SnapshotPtr Ptr() const { return std::make_shared<const config::Snapshot>(snapshot); }
};

std::int64_t Share(LimitBook& book, const std::string& limit, WallTime now) {
  const auto limiter = book.Find(limit);
  return limiter ? limiter->PartialLimit(now) : -1;
}

TEST(LimitBookTest, AScheduledRevisionCountsFromItsWindowOn) {
  LimitBook book({0, 0, {}});
  book.OnSnapshot(Revision().Instances(3).Limit("l", "300/s").Limit("gone", "9/s").Ptr(), At(seconds(0)));
  auto revision = Revision().Instances(2).Limit("l", "100/s").Limit("new", "2/s");
  revision.snapshot.effective_at = At(seconds(8));
  book.OnScheduled(revision.Ptr(), At(seconds(5)));
  EXPECT_EQ(Share(book, "l", At(milliseconds(7999))), 100);
  EXPECT_EQ(Share(book, "new", At(milliseconds(7999))), -1);
  EXPECT_EQ(Share(book, "l", At(seconds(8))), 50);
  EXPECT_EQ(Share(book, "gone", At(seconds(8))), 3) << "until the revision is put in force";
  book.OnSnapshot(revision.Ptr(), At(milliseconds(8010)));
  EXPECT_EQ(Share(book, "l", At(milliseconds(8020))), 50);
  EXPECT_EQ(Share(book, "l", At(seconds(9))), 50);
  EXPECT_EQ(Share(book, "gone", At(seconds(9))), -1);
}

TEST(LimitBookTest, AnotherRevisionCallsAScheduledOneOff) {
  LimitBook book({0, 0, {}});
  const auto first = Revision().Instances(1).Limit("l", "300/s");
  book.OnSnapshot(first.Ptr(), At(seconds(0)));
  auto later = Revision().Instances(1).Limit("l", "100/s");
  later.snapshot.effective_at = At(seconds(60));
  book.OnScheduled(later.Ptr(), At(seconds(5)));
  book.OnSnapshot(first.Ptr(), At(seconds(10)));
  EXPECT_EQ(Share(book, "l", At(seconds(60))), 300);
}

TEST(LimitBookTest, SlotsShareTheRate) {
  std::int64_t sum = 0;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    LimitBook book({slot, 0, {}});
    book.OnSnapshot(Revision().Instances(3).Limit("l", "100/s").Ptr(), At(seconds(0)));
    EXPECT_EQ(Share(book, "l", At(seconds(0))), 0) << "a window in which a predecessor may still count";
    const auto share = Share(book, "l", At(seconds(5)));
    EXPECT_GE(share, 33);
    EXPECT_LE(share, 34);
    sum += share;
    EXPECT_EQ(book.Problem(), "");
  }
  EXPECT_EQ(sum, 100);
}

TEST(LimitBookTest, WithoutASlotOrWithOneTooHighThereIsNoShareAndItIsSaid) {
  LimitBook none({std::nullopt, 0, {}});
  none.OnSnapshot(Revision().Instances(3).Limit("l", "100/s").Ptr(), At(seconds(0)));
  EXPECT_EQ(Share(none, "l", At(seconds(5))), 0);
  EXPECT_NE(none.Problem(), "");
  LimitBook high({3, 0, {}});
  high.OnSnapshot(Revision().Instances(3).Limit("l", "100/s").Ptr(), At(seconds(0)));
  EXPECT_EQ(Share(high, "l", At(seconds(5))), 0);
  EXPECT_NE(high.Problem(), "");
  high.OnSnapshot(Revision().Instances(4).Limit("l", "100/s").Ptr(), At(seconds(6)));
  EXPECT_EQ(high.Problem(), "");
  EXPECT_EQ(Share(high, "l", At(seconds(10))), 25);
}

TEST(LimitBookTest, FindsOnlyWhatTheNewestRevisionNames) {
  LimitBook book({0, 0, {}});
  EXPECT_EQ(book.Find("l"), nullptr);
  book.OnSnapshot(Revision().Instances(1).Limit("l", "1/s").Limit("m", "2/s").Ptr(), At(seconds(0)));
  const auto l = book.Find("l");
  EXPECT_NE(book.Find("m"), nullptr);
  book.OnSnapshot(Revision().Instances(1).Limit("l", "3/s").Ptr(), At(seconds(5)));
  EXPECT_EQ(book.Find("m"), nullptr);
  EXPECT_EQ(book.Find("l"), l) << "the counter goes on";
  ASSERT_EQ(book.Views().size(), 1u);
  EXPECT_EQ(book.Views()[0].name, "l");
}

TEST(LimitBookTest, ALoweredRateActsInTheRunningWindowAndARaisedOneAfterAWindow) {
  LimitBook book({0, 0, {}});
  book.OnSnapshot(Revision().Instances(2).Limit("l", "100/s").Ptr(), At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 50);
  book.OnSnapshot(Revision().Instances(2).Limit("l", "10/s").Ptr(), At(seconds(5)) + milliseconds(500));
  EXPECT_EQ(Share(book, "l", At(seconds(5)) + milliseconds(500)), 5);
  book.OnSnapshot(Revision().Instances(2).Limit("l", "100/s").Ptr(), At(seconds(9)));
  EXPECT_LE(Share(book, "l", At(seconds(9))), 50);
  EXPECT_EQ(Share(book, "l", At(seconds(12))), 50);
}

TEST(LimitBookTest, ByPartitionAShareWaitsForTheCountsOfAllTopics) {
  LimitBook book({std::nullopt, 0, {}});
  const auto revision = Revision().Limit("l", "100/s").Sub("s", "a", "l").Sub("t", "b", "l").Ptr();
  book.OnSnapshot(revision, At(seconds(0)));
  book.OnGained({{"a", 0}, {"b", 0}}, At(seconds(0)));
  book.OnPartitionCounts({{"a", 6}}, At(seconds(1)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 0);
  book.OnPartitionCounts({{"a", 6}, {"b", 4}}, At(seconds(6)));
  EXPECT_EQ(Share(book, "l", At(seconds(10))), 20) << "two of ten partitions";
  EXPECT_EQ(book.Problem(), "");
}

TEST(LimitBookTest, ByPartitionASharesEndsAtOnceAndBeginsWithAWindow) {
  LimitBook book({std::nullopt, 0, {}});
  book.OnSnapshot(Revision().Limit("l", "100/s").Sub("s", "a", "l").Ptr(), At(seconds(0)));
  book.OnPartitionCounts({{"a", 4}}, At(seconds(0)));
  book.OnGained({{"a", 0}, {"a", 1}}, At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 50);
  book.OnRevoked({{"a", 1}}, At(seconds(5)) + milliseconds(100));
  EXPECT_EQ(Share(book, "l", At(seconds(5)) + milliseconds(100)), 25);
  book.OnGained({{"a", 3}}, At(seconds(5)) + milliseconds(200));
  EXPECT_EQ(Share(book, "l", At(seconds(5)) + milliseconds(300)), 25);
  EXPECT_EQ(Share(book, "l", At(seconds(7))), 50);
}

TEST(LimitBookTest, AShareEndsWithItsPartitionAlsoWhileACountIsUnknown) {
  LimitBook book({std::nullopt, 0, {}});
  auto revision = Revision().Limit("l", "100/s").Sub("s", "a", "l");
  book.OnSnapshot(revision.Ptr(), At(seconds(0)));
  book.OnPartitionCounts({{"a", 4}}, At(seconds(0)));
  book.OnGained({{"a", 0}, {"a", 1}}, At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 50);
  book.OnSnapshot(revision.Sub("t", "new", "l").Ptr(), At(seconds(6)));
  EXPECT_EQ(Share(book, "l", At(seconds(7))), 50) << "by the old table until the new one is known";
  book.OnRevoked({{"a", 0}}, At(seconds(8)));
  EXPECT_EQ(Share(book, "l", At(seconds(8))), 25);
  book.OnRevoked({{"a", 1}}, At(seconds(9)));
  EXPECT_EQ(Share(book, "l", At(seconds(9))), 0);
}

TEST(LimitBookTest, OtherTopicsAreNobodysBusiness) {
  LimitBook book({std::nullopt, 0, {}});
  book.OnSnapshot(Revision().Limit("l", "100/s").Sub("s", "a", "l").Sub("t", "b", "").Ptr(), At(seconds(0)));
  book.OnPartitionCounts({{"a", 2}, {"b", 8}, {"c", 5}, {"d", 0}}, At(seconds(0)));
  book.OnGained({{"a", 0}, {"b", 0}, {"b", 1}}, At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 50);
}

TEST(LimitBookTest, FromPartitionsToSlotsAndBack) {
  LimitBook book({1, 0, {}});
  auto by_partition = Revision().Limit("l", "100/s").Sub("s", "a", "l");
  auto by_slot = by_partition;
  by_slot.Instances(4);
  book.OnPartitionCounts({{"a", 2}}, At(seconds(0)));
  book.OnSnapshot(by_partition.Ptr(), At(seconds(0)));
  book.OnGained({{"a", 0}}, At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 50);
  book.OnSnapshot(by_slot.Ptr(), At(seconds(6)));
  EXPECT_LE(Share(book, "l", At(seconds(6))), 25);
  EXPECT_EQ(Share(book, "l", At(seconds(120))), 25);
  book.OnSnapshot(by_partition.Ptr(), At(seconds(121)));
  EXPECT_EQ(Share(book, "l", At(seconds(240))), 50);
}

TEST(LimitBookTest, MaxRateZeroAdmitsNothing) {
  LimitBook book({0, 0, {}});
  book.OnSnapshot(Revision().Instances(1).Limit("l", "0").Ptr(), At(seconds(0)));
  EXPECT_EQ(Share(book, "l", At(seconds(5))), 0);
}

TEST(LimitBookTest, WhoHasWhatIsParkedHasASixteenthOfTheLimit) {
  LimitBook::Options options;
  options.retry_topic = "fleet.retry";
  const auto revision = Revision().Limit("l", "1920/s").Sub("billing", "orders", "l").Ptr();
  const auto at = delivery::RetryPartition("billing", 3);
  LimitBook sources(options);
  LimitBook parked(options);
  LimitBook others(options);
  for (auto* book : {&sources, &parked, &others}) {
    book->OnSnapshot(revision, At(seconds(0)));
    book->OnPartitionCounts({{"orders", 12}}, At(seconds(0)));
  }
  std::vector<delivery::TopicPartition> all;
  for (std::int32_t n = 0; n < 12; ++n) all.push_back({"orders", n});
  sources.OnGained(all, At(seconds(0)));
  parked.OnGained({{"fleet.retry", at}}, At(seconds(0)));
  others.OnGained({{"fleet.retry", (at + 1) % 3}}, At(seconds(0)));
  EXPECT_EQ(Share(sources, "l", At(seconds(5))), 1920);
  EXPECT_EQ(Share(parked, "l", At(seconds(5))), 0) << "nobody knows of a retry topic";
  for (auto* book : {&sources, &parked, &others})
    book->OnPartitionCounts({{"fleet.retry", 3}, {"orders", 12}}, At(seconds(10)));
  EXPECT_EQ(Share(sources, "l", At(seconds(100))), 1800);
  EXPECT_EQ(Share(parked, "l", At(seconds(100))), 120);
  EXPECT_EQ(Share(others, "l", At(seconds(100))), 0) << "in its partition are the messages of others";
  parked.OnRevoked({{"fleet.retry", at}}, At(seconds(101)));
  EXPECT_EQ(Share(parked, "l", At(seconds(101))), 0);
}

}  // namespace
}  // namespace posthorn::fleet
