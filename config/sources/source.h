#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <variant>

namespace posthorn::config {

/// An atomic set of raw documents: all of one revision, none of another.
struct RawSnapshot {
  std::string revision;                      // opaque, never empty; compared for equality only
  std::string number;                        // the source's own for people to read; empty where it has none
  std::map<std::string, std::string> files;  // name -> bytes
};

struct Changed {
  RawSnapshot snapshot;
};
struct Unchanged {};
struct Failed {
  std::string why;
  bool retryable = true;      // false: will not mend by itself (no right to read); still asked again, slowly
  bool source_waits = false;  // the next Next blocks until something may have changed: no back-off needed
  std::chrono::milliseconds retry_after{0};  // the source asked not to be asked again before; 0: it did not
};
struct Stopped {};
using Outcome = std::variant<Changed, Unchanged, Failed, Stopped>;

/// Where revisions come from. Pull-shaped: no callbacks, changes in between coalesce, a fake is three lines.
///
/// Threads  One: whoever calls Next. The stop token may be stopped from any.
/// Errors   An empty set of documents is a snapshot; whether it may be taken is decided by the one who validates.
class Source {
 public:
  virtual ~Source() = default;

  /// Blocks until the documents differ from revision `have`, at most for `wait`. `have` empty: the first snapshot, at
  /// once. Returns Stopped within 100 ms of a stop.
  virtual Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) = 0;

  /// For logs and metrics: `file subscriptions.yaml`. Never a secret.
  virtual std::string Describe() const = 0;

  /// Entries found that are no documents and were left out, since the start; what is read again counts again. Any
  /// thread.
  virtual std::uint64_t Ignored() const { return 0; }
};

}  // namespace posthorn::config
