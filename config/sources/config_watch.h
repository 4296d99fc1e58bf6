#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/model.h"
#include "config/sources/source.h"
#include "ratelimit/time.h"

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
  virtual void OnAccepted(const SnapshotPtr& snapshot) = 0;  // it is in force now
  virtual void OnRefused(const Refusal& refusal) = 0;        // again when its faults change
  virtual void OnSourceFailed(const std::string& why) = 0;   // once per reason, until it recovers
  virtual void OnSourceRecovered() = 0;
  /// Accepted, and in force from its `effective_at` on.
  virtual void OnScheduled(const SnapshotPtr&) {}
  /// In force: the source's last good revision, as it was kept `age` ago, until the source has a good one again.
  virtual void OnLastGood(const SnapshotPtr&, std::chrono::milliseconds /*age*/) {}
  /// The last good revision cannot be kept, or what was kept cannot be used. Once per reason.
  virtual void OnCacheFailed(const std::string&) {}
};

struct WatchState {
  SnapshotPtr current;                                  // in force; null until the first one is
  SnapshotPtr scheduled;                                // accepted, and will be in force at its `effective_at`
  std::uint64_t accepted = 0;                           // revisions put in force
  std::uint64_t refused = 0;                            // revisions
  std::uint64_t late = 0;                               // learned less than a second before a new `effective_at`
  std::uint64_t source_failures = 0;                    // answers of the source
  std::uint64_t ignored = 0;                            // entries of the source that are no documents
  bool newest_refused = false;                          // what the source has is not what is running
  bool last_good = false;                               // `current` was kept on disk, not given by the source
  std::optional<Refusal> last_refused;                  // kept after a later one was accepted
  std::string source;                                   // for people, see Source::Describe
  std::string source_failure;                           // empty: the source answers
  std::string cache_failure;                            // empty: the last good revision is kept, or none is wanted
  std::chrono::steady_clock::time_point accepted_at{};  // of `current`; of one from disk: when the source gave it
};

struct ConfigWatchOptions {
  Capabilities capabilities{};
  Environment environment = SystemEnvironment();
  std::filesystem::path cache{};        // directory of the last good revision; empty: it is not kept
  std::string cache_name = "posthorn";  // of its files
  std::string source_identity{};        // a kept revision of another source counts as none; empty: its description
  std::function<ratelimit::WallTime()> wall_clock{};  // tells when `effective_at` is; empty: the system's
  std::chrono::milliseconds patience{2'000};          // with a silent source before the last good revision is taken
  std::chrono::milliseconds judge_again{3'000};       // a refused revision that names files
};

/// The config-watch thread: source -> parse -> validate -> publish. A revision is taken whole or refused whole; a
/// refused one leaves the running one in place, and so does a source that is away. Without a first good revision it
/// takes the last one kept on disk, if there is one; otherwise it waits: `Current()` is null and the worker is not
/// ready.
///
/// A revision with an `effective_at` to come is accepted at once and in force from then on; the newest revision always
/// counts, so that one that comes meanwhile calls it off.
///
/// A refused revision that names files (`file:/path`) is judged again and again until the source has another one: they
/// may be mounted or written later. It counts once, and is told again when the faults are others.
///
/// Threads  Everything but Start and Stop from any thread. Listeners and the observer run on the watch's thread, in
///          the order they were given, the observer first. The source and the disk have a thread each, so that
///          neither holds up the other things.
/// Time     A failing source is asked again after 100 ms, doubled up to 4 s, each with jitter, or when it asked to be.
/// Errors   A listener must not throw. A source that throws has failed.
class ConfigWatch {
 public:
  using Listener = std::function<void(const SnapshotPtr&)>;

  /// `observer` may be null and outlives the watch.
  ConfigWatch(std::unique_ptr<Source> source, ConfigWatchOptions options, ConfigObserver* observer = nullptr);
  ~ConfigWatch();  // stops

  /// Called with every revision put in force from now on, and before that with the current one, if any, on the
  /// caller's thread. Never called again once Stop has returned.
  void Listen(Listener listener);
  /// The same for revisions that were accepted and will be in force later. A revision put in force calls it off, unless
  /// it is told again right after.
  void ListenScheduled(Listener listener);

  void Start();

  /// Returns within 100 ms unless a listener takes longer; a source that does not end by then is left behind, and never
  /// heard again. Idempotent.
  void Stop();

  SnapshotPtr Current() const;
  WatchState State() const;
  std::string DescribeSource() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::config
