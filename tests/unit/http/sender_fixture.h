#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scripted_endpoint.h"
#include "worker/http/curl_sender.h"
#include "worker/runtime/asio_loop.h"

namespace posthorn::http {

/// What an attempt came to, copied out of its Response.
struct Outcome {
  delivery::Verdict verdict{};
  int status = 0;
  std::optional<std::chrono::milliseconds> retry_after;
  std::string error;
  runtime::Nanoseconds elapsed{0};
};

/// One attempt. `go` decides OnBeforeWrite; `on_before` and `on_finished` run inside the calls, on the loop.
class Attempt final : public delivery::AttemptHandler {
 public:
  bool go = true;
  std::function<void()> on_before;
  std::function<void()> on_finished;

  bool OnBeforeWrite() noexcept override {
    ++before_writes_;
    if (on_before) on_before();
    return go;
  }
  void OnFinished(const delivery::Response& r) noexcept override {
    ++finishes_;
    outcome_ = {r.verdict, r.status, r.retry_after, std::string(r.error), r.elapsed};
    if (on_finished) on_finished();
    if (finishes_ == 1) done_.set_value();
  }

  /// Waits for the end. Fails the test when it does not come.
  const Outcome& Await() {
    if (future_.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      ADD_FAILURE() << "an attempt was never finished";
    }
    return outcome_;
  }
  // After Await.
  [[nodiscard]] int before_writes() const { return before_writes_; }
  [[nodiscard]] int finishes() const { return finishes_; }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  int before_writes_ = 0;
  int finishes_ = 0;
  Outcome outcome_;
  std::promise<void> done_;
  std::future<void> future_ = done_.get_future();
};

inline delivery::RecordPtr MakeRecord(std::optional<std::string_view> value,
                                      const std::vector<delivery::HeaderView>& headers = {},
                                      delivery::Offset offset = 7) {
  delivery::Record::Parts parts;
  parts.offset = offset;
  parts.value = value;
  parts.headers = &headers;
  return delivery::Record::Copy(parts);
}

inline constexpr auto kRead = &test::ScriptedEndpoint::Read;

/// A sender on a loop of its own. Everything is sent from the loop's thread.
class SenderTest : public ::testing::Test {
 protected:
  using Endpoint = test::ScriptedEndpoint;

  SenderTest() : loop_(runtime::SystemClock(), "test-loop") { loop_.Start(); }
  ~SenderTest() override {
    DestroySender();
    loop_.Stop();
  }

  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    loop_.Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  void DestroySender() {
    OnLoop([&] { sender_.reset(); });
  }

  CurlSender& sender() {
    if (!sender_) {
      OnLoop([&] { sender_ = std::make_unique<CurlSender>(loop_, options_); });
    }
    return *sender_;
  }

  config::Subscription Subscription(const std::string& endpoint) {
    config::Subscription s;
    s.name = "billing";
    s.topic = "orders";
    s.endpoint = endpoint;
    s.timeout = std::chrono::seconds(20);
    return s;
  }

  std::shared_ptr<delivery::Target> Prepare(const config::Subscription& subscription) {
    std::shared_ptr<delivery::Target> target;
    CurlSender& s = sender();
    OnLoop([&] { target = s.Prepare(subscription); });
    return target;
  }

  delivery::Message MakeMessage(delivery::RecordPtr record) {
    delivery::Message message;
    message.record = std::move(record);
    message.partition = &partition_;
    message.now = runtime::WallTime(std::chrono::seconds(1'700'000'000));
    return message;
  }

  void Start(const std::shared_ptr<delivery::Target>& target, Attempt& attempt,
             const delivery::RecordPtr& record = MakeRecord("hello")) {
    CurlSender& s = sender();
    OnLoop([&] { s.Send(target, MakeMessage(record), attempt); });
  }

  /// One whole attempt.
  Outcome Deliver(const std::shared_ptr<delivery::Target>& target,
                  const delivery::RecordPtr& record = MakeRecord("hello")) {
    Attempt attempt;
    Start(target, attempt, record);
    attempt.Await();
    // The handler is gone from the sender only when its call has returned.
    OnLoop([] {});
    EXPECT_EQ(attempt.finishes(), 1);
    EXPECT_LE(attempt.before_writes(), 1);
    return attempt.outcome();
  }

  Outcome DeliverTo(const Endpoint& endpoint) { return Deliver(Prepare(Subscription(endpoint.url("/hooks")))); }

  CurlSenderOptions options_;
  delivery::TopicPartition partition_{"orders", 3};
  runtime::AsioLoop loop_;
  std::unique_ptr<CurlSender> sender_;
};

}  // namespace posthorn::http
