#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/model.h"
#include "config/sources/source.h"

namespace posthorn::config {

/// A revision that was not taken, and every reason.
struct Refusal {
  std::string digest;
  std::string source_revision;
  std::vector<Fault> faults;
};

/// Told what happens to revisions, on the watch's thread; it should return soon and must not call Stop.
class ConfigObserver {
 public:
  virtual ~ConfigObserver() = default;
  virtual void OnAccepted(const SnapshotPtr& snapshot) = 0;
  virtual void OnRefused(const Refusal& refusal) = 0;
  virtual void OnSourceFailed(const std::string& why) = 0;  // once per reason, until it recovers
  virtual void OnSourceRecovered() = 0;
};

struct WatchState {
  SnapshotPtr current;                                  // null until the first revision was accepted
  std::uint64_t accepted = 0;                           // revisions
  std::uint64_t refused = 0;                            // revisions
  std::uint64_t source_failures = 0;                    // answers of the source
  bool newest_refused = false;                          // what the source has is not what is running
  std::optional<Refusal> last_refused;                  // kept after a later one was accepted
  std::string source_failure;                           // empty: the source answers
  std::chrono::steady_clock::time_point accepted_at{};  // of `current`
};

/// The config-watch thread: source -> parse -> validate -> publish. A revision is taken whole or refused whole; a
/// refused one leaves the running one in place, and so does a source that is away. Without a first good revision it
/// waits: `Current()` is null and the worker is not ready.
///
/// Threads  Everything but Start and Stop from any thread. Listeners and the observer run on the watch's thread, in
///          the order they were given, the observer first.
/// Time     A failing source is asked again after 100 ms, doubled up to 5 s, each with jitter.
/// Errors   A listener must not throw.
class ConfigWatch {
 public:
  using Listener = std::function<void(const SnapshotPtr&)>;

  /// `observer` may be null and outlives the watch.
  ConfigWatch(std::unique_ptr<Source> source, Capabilities capabilities, ConfigObserver* observer = nullptr,
              const Environment& environment = SystemEnvironment());
  ~ConfigWatch();  // stops

  /// Called with every accepted snapshot from now on, and before that with the current one, if any, on the caller's
  /// thread. Never called again once Stop has returned.
  void Listen(Listener listener);

  void Start();

  /// Returns when the thread has ended, within 100 ms unless a listener takes longer. Idempotent.
  void Stop();

  SnapshotPtr Current() const;
  WatchState State() const;
  std::string DescribeSource() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::config
