#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "worker/delivery/sender.h"
#include "worker/runtime/asio_loop.h"

namespace posthorn::http {

struct CurlSenderOptions {
  std::size_t body_cap = 64u << 10;          // bytes of an answer's body that are read (and dropped)
  std::size_t header_cap = 64u << 10;        // bytes of an answer's headers; more is a failure
  std::chrono::seconds idle_connection{30};  // an unused connection is closed after this, give or take a sweep
  std::string user_agent;                    // empty: posthorn/<version>
};

/// Sends requests with libcurl on one shard's loop.
///
/// One permit, one request  The handler's OnBeforeWrite is asked right before the request goes out, once. When libcurl
///          wants to send the same request again by itself (a kept-alive connection died under it), that is refused and
///          the attempt ends as Verdict::kRetry.
/// Answer   The status counts as soon as the answer's headers are complete: what happens to the body afterwards (cut
/// off,
///          endless, too slow) changes nothing. Without complete headers: kRetry and an error text.
/// Time     The subscription's timeout runs from the start of the connection (name look-up included) to the end of the
///          answer.
/// Errors   A target that cannot work (unreadable certificate, http 2 without a libcurl for it) still takes Sends; each
///          fails with that reason. Error texts come from a closed set, plus the timeout: no address, no secret.
/// Cost     Idle targets cost no connection, no descriptor and no timer after `idle_connection`. Connections are kept
///          alive and grouped, at most 64 requests at once per libcurl multi handle.
/// Threads  The loop's thread only, construction (before the loop runs) and destruction (after it has stopped) aside.
///          That includes letting go of a Target for the last time.
/// Lifetime Targets may outlive the sender. Destruction ends what is in flight as Cancel does; requests that handlers
///          send meanwhile end with kNotSent.
class CurlSender final : public delivery::Sender {
 public:
  explicit CurlSender(runtime::AsioLoop& loop, CurlSenderOptions options = {});
  ~CurlSender() override;
  CurlSender(const CurlSender&) = delete;
  CurlSender& operator=(const CurlSender&) = delete;

  [[nodiscard]] std::shared_ptr<delivery::Target> Prepare(const config::Subscription& subscription) override;
  void Send(const std::shared_ptr<delivery::Target>& target, const delivery::Message& message,
            delivery::AttemptHandler& handler) override;
  void Cancel(delivery::AttemptHandler& handler) override;

  [[nodiscard]] std::size_t in_flight() const;
  /// Open connections, idle ones included.
  [[nodiscard]] std::size_t connections() const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace posthorn::http
