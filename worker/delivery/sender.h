#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"
#include "worker/delivery/record.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// What became of one request, by what to do next (the table in docs/delivery.md).
enum class Verdict : std::uint8_t {
  kDelivered,  // 2xx
  kRetry,      // 3xx, 408, 425, 5xx, no answer: counts as failure
  kOverload,   // 429, 502, 503, 504: retry, and the subscription slows down
  kRejected,   // 4xx that will not get better
  kNotSent,    // nothing was written (the permit could not be renewed, the shard is stopping): no attempt was made
};

/// The answer to one request. Text views are valid only during AttemptHandler::OnFinished.
struct Response {
  Verdict verdict = Verdict::kRetry;
  int status = 0;                                        // 0: no status line was received
  std::optional<std::chrono::milliseconds> retry_after;  // as asked for, not yet capped; never negative
  std::string_view error;                                // empty when a status was received; no secret, no full URL
  runtime::Nanoseconds elapsed{0};
};

/// One attempt as its sender sees it. Both calls come on the shard's thread.
class AttemptHandler {
 public:
  virtual ~AttemptHandler() = default;
  /// The connection is there and the request is about to be written: the last moment to take it back. False makes the
  /// attempt end with Verdict::kNotSent. Called at most once per Send with the result true; a hidden second sending by
  /// the HTTP library never gets that far (it becomes an ordinary failed attempt).
  [[nodiscard]] virtual bool OnBeforeWrite() noexcept = 0;
  /// Exactly once per Send, never from inside Send. The handler may be destroyed in it.
  virtual void OnFinished(const Response& response) noexcept = 0;
};

/// Everything about a subscription that its requests share, prepared once per revision (URL parsed, header list built).
class Target {
 public:
  virtual ~Target() = default;
};

/// What one request carries.
struct Message {
  RecordPtr record;  // kept until OnFinished
  const TopicPartition* partition = nullptr;
  std::uint32_t attempt_number = 1;  // from 1
  runtime::WallTime now{};           // goes into webhook-timestamp
};

/// Starts HTTP requests on one shard's loop. Narrow on purpose: another engine may stand beside libcurl one day.
/// Threads  The shard's thread only.
class Sender {
 public:
  virtual ~Sender() = default;
  [[nodiscard]] virtual std::shared_ptr<Target> Prepare(const config::Subscription& subscription) = 0;
  virtual void Send(const std::shared_ptr<Target>& target, const Message& message, AttemptHandler& handler) = 0;
  /// Ends the request of `handler` with Verdict::kRetry and the error "cancelled" (it may have been received), or
  /// kNotSent when nothing was written yet; OnFinished is called before this returns. Unknown handlers are ignored.
  virtual void Cancel(AttemptHandler& handler) = 0;
};

}  // namespace posthorn::delivery
