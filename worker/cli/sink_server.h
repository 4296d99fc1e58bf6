#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/cli/arrival_counts.h"
#include "worker/cli/sink_behaviour.h"

namespace posthorn::cli {

struct SinkOptions {
  std::string listen = "127.0.0.1:0";
  SinkBehaviour behaviour;
  std::string log;  // file for one JSON line per request, "-" for stdout, empty: none
  unsigned threads = 1;
};

/// An HTTP/1.1 receiver that counts. Takes any method and path, keeps connections alive, answers pipelined requests in
/// order. `POST /_sink/set` changes the behaviour and `GET /_sink/counts` tells the counts; neither is counted nor
/// logged.
///
/// Time     A request's time is the wall clock right after the read that brought its first byte.
/// Log      One object per line: `time` (seconds, with milliseconds), `time_ns`, `method`, `path`, `webhook_id`,
/// `attempt`,
///          `subscription`, `status` (as answered), `bytes`, `wait_ms` (before the answer; only when there is a wait),
///          `reset` (true when the answer ends with a reset), `headers` (the others worth knowing). Written when the
///          request has been read, in batches, at the latest after 200 ms and at Stop.
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
  /// The same for one second alone.
  [[nodiscard]] ArrivalCounts::Second CountsAt(ratelimit::Label second) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::cli
