#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/delivery/sender.h"
#include "worker/runtime/clock.h"

namespace posthorn::test {

/// A request that reached the subscriber.
struct WrittenRequest {
  std::string subscription;
  delivery::TopicPartition partition;
  delivery::Offset offset = 0;
  std::uint32_t attempt = 0;
  runtime::Now at{};
};

[[nodiscard]] inline delivery::Response Respond(delivery::Verdict verdict, int status = 0,
                                                std::optional<std::chrono::milliseconds> retry_after = {}) {
  delivery::Response response;
  response.verdict = verdict;
  response.status = status;
  response.retry_after = retry_after;
  return response;
}

/// A sender whose answers the test gives. Threads: the one that drives the shard.
class FakeSender final : public delivery::Sender {
 public:
  struct FakeTarget final : delivery::Target {
    std::string subscription;
    std::string endpoint;
  };
  struct Pending {
    delivery::AttemptHandler* handler;
    std::shared_ptr<delivery::Target> target;
    delivery::RecordPtr record;
    WrittenRequest request;
    bool written = false;
  };

  explicit FakeSender(runtime::Clock& clock) : clock_(clock) {}

  [[nodiscard]] std::shared_ptr<delivery::Target> Prepare(const config::Subscription& subscription) override {
    auto target = std::make_shared<FakeTarget>();
    target->subscription = subscription.name;
    target->endpoint = subscription.endpoint;
    ++prepared;
    return target;
  }
  void Send(const std::shared_ptr<delivery::Target>& target, const delivery::Message& message,
            delivery::AttemptHandler& handler) override {
    const auto& fake = static_cast<const FakeTarget&>(*target);
    pending.push_back({&handler,
                       target,
                       message.record,
                       {fake.subscription,
                        message.record->source(*message.partition),
                        message.record->source_offset(),
                        message.attempt_number,
                        {}}});
    most_pending = std::max(most_pending, pending.size());
  }
  void Cancel(delivery::AttemptHandler& handler) override {
    const auto it = std::find_if(pending.begin(), pending.end(), [&](const auto& p) { return p.handler == &handler; });
    if (it == pending.end()) return;
    ++cancelled;
    auto response = Respond(it->written ? delivery::Verdict::kRetry : delivery::Verdict::kNotSent);
    const auto kept = *it;
    pending.erase(it);
    response.error = "cancelled";
    handler.OnFinished(response);
  }

  /// Writes request `index` unless it is taken back, which ends it.
  bool Write(std::size_t index) {
    auto& p = pending[index];
    if (p.written) return true;
    if (!p.handler->OnBeforeWrite()) {
      Finish(index, Respond(delivery::Verdict::kNotSent));
      return false;
    }
    p.written = true;
    p.request.at = clock_.Read();
    written.push_back(p.request);
    return true;
  }
  void Finish(std::size_t index, const delivery::Response& response) {
    auto* handler = pending[index].handler;
    const auto kept = pending[index];  // target and record live until OnFinished has returned
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
    handler->OnFinished(response);
  }
  /// Writes and answers the oldest request.
  void Answer(delivery::Verdict verdict, int status, std::optional<std::chrono::milliseconds> retry_after = {}) {
    if (!Write(0)) return;
    Finish(0, Respond(verdict, status, retry_after));
  }
  void Ok() { Answer(delivery::Verdict::kDelivered, 200); }
  void Fail() { Answer(delivery::Verdict::kRetry, 500); }
  void Reject() { Answer(delivery::Verdict::kRejected, 422); }

  [[nodiscard]] std::vector<delivery::Offset> pending_offsets() const {
    std::vector<delivery::Offset> offsets;
    for (const auto& p : pending) offsets.push_back(p.request.offset);
    return offsets;
  }
  [[nodiscard]] std::vector<delivery::Offset> written_offsets() const {
    std::vector<delivery::Offset> offsets;
    for (const auto& w : written) offsets.push_back(w.offset);
    return offsets;
  }

  std::deque<Pending> pending;  // oldest first
  std::vector<WrittenRequest> written;
  std::size_t most_pending = 0;
  std::size_t prepared = 0;
  std::size_t cancelled = 0;

 private:
  runtime::Clock& clock_;
};

}  // namespace posthorn::test
