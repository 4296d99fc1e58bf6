// The offset store against librdkafka's embedded broker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/kafka/embedded_fixture.h"
#include "worker/kafka/offset_store.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class EmbeddedOffsetsTest : public EmbeddedTest {};

class Guard final : public delivery::MembershipGuard {
 public:
  bool Confirmed() const override { return confirmed; }
  void Suspect() override { confirmed = false; }
  void OnConfirmed(std::function<void()> callback) override { callback_ = std::move(callback); }
  void Confirm() {
    confirmed = true;
    callback_();
  }
  std::atomic<bool> confirmed{true};

 private:
  std::function<void()> callback_;
};

bool Flushed(KafkaOffsetStore& store, const std::vector<delivery::OffsetStore::Key>& keys) {
  std::promise<bool> done;
  store.Flush(keys, [&](bool good) { done.set_value(good); });
  return done.get_future().get();
}

TEST_F(EmbeddedOffsetsTest, OffsetsComeBackWithTheirMetadata) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  ASSERT_NE(store, nullptr) << error;
  const delivery::OffsetStore::Key a{"billing", {"orders", 0}};
  const delivery::OffsetStore::Key b{"billing", {"orders", 1}};
  const delivery::OffsetStore::Key c{"audit", {"orders", 0}};
  auto fetched = store->Fetch({a, b, c}, 5s);
  ASSERT_TRUE(fetched.has_value());
  EXPECT_THAT(*fetched, ElementsAre(std::nullopt, std::nullopt, std::nullopt));

  store->Update(a, {5, std::string(4096, 'x')}, true, true);
  store->Update(c, {7, ""}, false, true);
  store->Update(a, {6, "meta"}, true, true);
  ASSERT_TRUE(Flushed(*store, {a, b, c}));
  fetched = store->Fetch({c, a, b}, 5s);
  ASSERT_TRUE(fetched.has_value());
  EXPECT_THAT(*fetched, ElementsAre(delivery::Position{7, ""}, delivery::Position{6, "meta"}, std::nullopt));
  EXPECT_EQ(store->stats().waiting, 0U);
  EXPECT_GE(store->stats().requests, 2U);
  EXPECT_EQ(store->stats().failures, 0U);
}

TEST_F(EmbeddedOffsetsTest, ChangesAreWrittenWithoutAFlush) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  RecordingWorker waiter(Config("other"), {}, {});
  for (int next = 1; next <= 3; ++next) {
    store->Update(key, {next, ""}, false, true);
    ASSERT_TRUE(waiter.WaitFor([&] {
      const auto fetched = store->Fetch({key}, 5s);
      return fetched && fetched->at(0) && fetched->at(0)->next == next;
    }));
  }
}

TEST_F(EmbeddedOffsetsTest, WritesAreHeldWhileTheMembershipIsInDoubt) {
  Guard guard;
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  store->UseGuard(guard);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  guard.Suspect();
  store->Update(key, {3, ""}, true, true);
  std::promise<bool> done;
  auto future = done.get_future();
  store->Flush({key}, [&](bool good) { done.set_value(good); });
  EXPECT_EQ(future.wait_for(300ms), std::future_status::timeout);
  EXPECT_THAT(*store->Fetch({key}, 5s), ElementsAre(std::nullopt));
  guard.Confirm();
  EXPECT_TRUE(future.get());

  guard.Suspect();
  store->Update(key, {9, ""}, true, true);
  std::promise<bool> dropped;
  store->Flush({key}, [&](bool good) { dropped.set_value(good); });
  store->Drop({key});
  EXPECT_FALSE(dropped.get_future().get());
  guard.Confirm();
  EXPECT_TRUE(Flushed(*store, {key}));
  EXPECT_EQ(store->Fetch({key}, 5s)->at(0)->next, 3);
}

TEST_F(EmbeddedOffsetsTest, WritesAreRepeatedWhenTheBrokerComesBack) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  store->Update(key, {1, ""}, true, true);
  ASSERT_TRUE(Flushed(*store, {key}));
  broker_->SetDown(true);
  store->Update(key, {2, ""}, true, true);
  EXPECT_EQ(store->Fetch({key}, 300ms), std::nullopt);
  broker_->SetDown(false);
  EXPECT_TRUE(Flushed(*store, {key}));
  EXPECT_EQ(store->Fetch({key}, 10s)->at(0)->next, 2);
}

TEST_F(EmbeddedOffsetsTest, OffsetsAreAskedForAndWrittenAnewWhenAClientGetsNoAnswer) {
  std::string error;
  broker_ = EmbeddedBroker::Create(error, 2);
  ASSERT_NE(broker_, nullptr) << error;
  ASSERT_TRUE(broker_->CreateTopic("orders", 2, error)) << error;
  KafkaOffsetStore::Options options;
  options.patience = 300ms;
  // Only the first broker is known from the start: what the second keeps back does not keep the client from the first.
  auto deployment = TestDeployment(broker_->bootstrap().substr(0, broker_->bootstrap().find(',')), "fleet");
  const auto store = KafkaOffsetStore::Create(ClientConfig::From(deployment, true), options, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  store->Update(key, {1, ""}, true, true);
  ASSERT_TRUE(Flushed(*store, {key}));

  broker_->KeepAnswer("fleet.billing", EmbeddedBroker::Request::kWriteOffsets);
  store->Update(key, {2, ""}, true, true);
  EXPECT_TRUE(Flushed(*store, {key}));

  broker_->KeepAnswer("fleet.billing", EmbeddedBroker::Request::kFetchOffsets);
  EXPECT_EQ(store->Fetch({key}, 400ms), std::nullopt);
  delivery::OffsetStore::Fetched fetched;
  RecordingWorker waiter(Config("other"), {}, {});
  ASSERT_TRUE(waiter.WaitFor([&] { return (fetched = store->Fetch({key}, 400ms)).has_value(); }));
  EXPECT_EQ(fetched->at(0)->next, 2);
}

TEST_F(EmbeddedOffsetsTest, TheStoreSurvivesAFlappingBroker) {
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  const delivery::OffsetStore::Key key{"billing", {"orders", 0}};
  for (int round = 0; round < 30; ++round) {
    broker_->SetDown(true);
    for (int i = 0; i < 1 + round % 4; ++i) {
      store->Update(key, {round, ""}, true, true);
      EXPECT_EQ(store->Fetch({key}, std::chrono::milliseconds(10 + 37 * i)), std::nullopt);
    }
    broker_->SetDown(false);
    if (round % 3 == 0) {
      ASSERT_TRUE(Flushed(*store, {key}));
      EXPECT_EQ(store->Fetch({key}, 10s)->at(0)->next, round);
    }
  }
}

TEST_F(EmbeddedOffsetsTest, BoundsOfAPartition) {
  Produce("orders", 1, 0, 17);
  std::string error;
  const auto store = KafkaOffsetStore::Create(Config(), {}, error);
  EXPECT_EQ(store->Bounds({"orders", 1}, 5s), std::pair(delivery::Offset{0}, delivery::Offset{17}));
  EXPECT_EQ(store->Bounds({"orders", 0}, 5s), std::pair(delivery::Offset{0}, delivery::Offset{0}));
}

}  // namespace
}  // namespace posthorn::kafka
