#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "worker/cli/arrival_counts.h"

namespace posthorn::cli {

/// How a sink answers; may change while it runs.
struct SinkBehaviour {
  int status = 200;
  double fail = 0;  // share of requests, 0 to 1, that get `fail_status`
  int fail_status = 503;
  std::chrono::milliseconds latency_min{0};  // a random time between the two
  std::chrono::milliseconds latency_max{0};
  std::optional<std::int64_t> retry_after;  // seconds, sent with every status that is not 2xx
};

struct SinkOptions {
  std::string listen = "127.0.0.1:0";
  SinkBehaviour behaviour;
  std::string log;  // file for one JSON line per request, "-" for stdout, empty: none
  unsigned threads = 1;
};

/// An HTTP/1.1 receiver that counts. Takes any method and path; `/_sink/set` and `/_sink/counts` control it and are
/// neither counted nor logged.
///
/// Time     A request's time is the wall clock right after the read that brought its first byte.
/// Log      Written in batches, at the latest after 200 ms and at Stop.
/// Threads  Its own (SinkOptions::threads); all members from any thread, Start and Stop from the owner.
class SinkServer {
 public:
  explicit SinkServer(SinkOptions options);
  ~SinkServer();
  SinkServer(const SinkServer&) = delete;
  SinkServer& operator=(const SinkServer&) = delete;

  /// Listens and serves. Errors: false and one line in `*why`.
  [[nodiscard]] bool Start(std::string* why);
  /// Closes everything and writes out the log. Idempotent.
  void Stop();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string address() const;  // host:port
  void Set(const SinkBehaviour& behaviour);
  [[nodiscard]] SinkBehaviour behaviour() const;
  [[nodiscard]] ArrivalCounts::Totals counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::cli
