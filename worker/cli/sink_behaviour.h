#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::cli {

/// How a sink answers; may change while it runs.
struct SinkBehaviour {
  int status = 200;
  double fail = 0;    // share of requests, 0 to 1, that get `fail_status`
  double poison = 0;  // share of messages, 0 to 1, that get it with every attempt; which ones, their webhook-id says
  int fail_status = 503;
  std::chrono::milliseconds latency_min{0};  // a random time between the two
  std::chrono::milliseconds latency_max{0};
  std::optional<std::int64_t> retry_after;  // seconds, sent with every status that is not 2xx
  double reset = 0;  // share of answers, 0 to 1, that end in the middle of their body with a TCP reset
  bool operator==(const SinkBehaviour&) const = default;
};

/// Whether a message is one of the poisoned ones. The same for any share that is not smaller.
[[nodiscard]] bool IsPoisoned(std::string_view webhook_id, double share);

/// `30%`, or a number from 0 to 1. Errors: nullopt.
[[nodiscard]] std::optional<double> ParseShare(std::string_view text);

/// `50ms`, `2s`, or a range of these, `10ms-200ms`. Errors: false, nothing is changed.
[[nodiscard]] bool ParseLatency(std::string_view text, SinkBehaviour& behaviour);

/// Takes what a JSON object names of `status`, `fail` (number or "30%"), `fail_status`, `latency_ms` (number or
/// [least, most]), `retry_after` (seconds or null), `poison` and `reset` (as `fail`) and leaves the rest. Errors: what
/// is wrong, and nothing is changed.
[[nodiscard]] std::optional<std::string> ChangeByJson(std::string_view json, SinkBehaviour& behaviour);

/// The object ChangeByJson takes, complete.
[[nodiscard]] std::string ToJson(const SinkBehaviour& behaviour);

}  // namespace posthorn::cli
