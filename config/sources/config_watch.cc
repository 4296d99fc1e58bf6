#include "config/sources/config_watch.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace posthorn::config {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWait{30'000};  // of one question to the source
constexpr milliseconds kFirstBackoff{100};
constexpr milliseconds kLongestBackoff{5'000};

}  // namespace

class ConfigWatch::Impl {
 public:
  Impl(std::unique_ptr<Source> source, Capabilities capabilities, ConfigObserver* observer,
       const Environment& environment)
      : source_(std::move(source)),
        capabilities_(std::move(capabilities)),
        observer_(observer),
        environment_(environment) {}
  ~Impl() { Stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Listen(Listener listener) {
    const std::lock_guard publishing(publishing_);
    if (const SnapshotPtr current = Current()) listener(current);
    listeners_.push_back(std::move(listener));
  }

  void Start() {
    if (thread_.joinable()) return;
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  void Stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

  SnapshotPtr Current() const {
    const std::lock_guard lock(mutex_);
    return state_.current;
  }

  WatchState State() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  std::string DescribeSource() const { return source_->Describe(); }

 private:
  void Run(const std::stop_token& stop) {
    std::string have;
    milliseconds backoff = kFirstBackoff;
    while (!stop.stop_requested()) {
      Outcome outcome = source_->Next(have, kWait, stop);
      if (std::holds_alternative<Stopped>(outcome)) return;
      if (const Failed* failed = std::get_if<Failed>(&outcome)) {
        NoteFailure(failed->why);
        if (failed->source_waits) continue;
        // A store that was reset may have passed our revision already: ask for all, compare the content.
        have.clear();
        BackOff(failed->retryable ? backoff : kLongestBackoff, stop);
        backoff = std::min(backoff * 2, kLongestBackoff);
        continue;
      }
      NoteRecovery();
      backoff = kFirstBackoff;
      if (Changed* changed = std::get_if<Changed>(&outcome)) {
        have = changed->snapshot.revision;
        Take(changed->snapshot);
      }
    }
  }

  void Take(const RawSnapshot& raw) {
    const std::string digest = Digest(raw.files);
    if (digest == seen_) return;
    seen_ = digest;
    Loaded<Snapshot> loaded = LoadSubscriptions(raw.files, capabilities_, environment_);
    if (!loaded) {
      const Refusal refusal{digest, raw.number, std::move(loaded.faults)};
      {
        const std::lock_guard lock(mutex_);
        ++state_.refused;
        state_.newest_refused = true;
        state_.last_refused = refusal;
      }
      if (observer_ != nullptr) observer_->OnRefused(refusal);
      return;
    }
    loaded.value->source_revision = raw.number;
    const auto snapshot = std::make_shared<const Snapshot>(std::move(*loaded.value));
    const std::lock_guard publishing(publishing_);
    {
      const std::lock_guard lock(mutex_);
      ++state_.accepted;
      state_.newest_refused = false;
      state_.current = snapshot;
      state_.accepted_at = std::chrono::steady_clock::now();
    }
    if (observer_ != nullptr) observer_->OnAccepted(snapshot);
    for (const Listener& listener : listeners_) listener(snapshot);
  }

  void NoteFailure(const std::string& why) {
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      ++state_.source_failures;
      news = std::exchange(state_.source_failure, why) != why;
    }
    if (news && observer_ != nullptr) observer_->OnSourceFailed(why);
  }

  void NoteRecovery() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(state_.source_failure, {}).empty()) return;
    }
    if (observer_ != nullptr) observer_->OnSourceRecovered();
  }

  void BackOff(milliseconds most, const std::stop_token& stop) {
    std::uniform_int_distribution<std::int64_t> jitter(most.count() / 2, most.count());
    std::unique_lock lock(sleep_mutex_);
    sleep_.wait_for(lock, stop, milliseconds(jitter(random_)), [] { return false; });
  }

  const std::unique_ptr<Source> source_;
  const Capabilities capabilities_;
  ConfigObserver* const observer_;
  const Environment environment_;

  mutable std::mutex mutex_;  // state_
  WatchState state_;
  std::mutex publishing_;  // listeners_; held while they are called, so that none misses a revision or sees two at once
  std::vector<Listener> listeners_;

  std::string seen_;  // digest of the newest revision, taken or refused
  std::minstd_rand random_{std::random_device{}()};
  std::mutex sleep_mutex_;
  std::condition_variable_any sleep_;
  std::jthread thread_;  // last: it uses all of the above
};

ConfigWatch::ConfigWatch(std::unique_ptr<Source> source, Capabilities capabilities, ConfigObserver* observer,
                         const Environment& environment)
    : impl_(std::make_unique<Impl>(std::move(source), std::move(capabilities), observer, environment)) {}
ConfigWatch::~ConfigWatch() = default;

void ConfigWatch::Listen(Listener listener) { impl_->Listen(std::move(listener)); }
void ConfigWatch::Start() { impl_->Start(); }
void ConfigWatch::Stop() { impl_->Stop(); }
SnapshotPtr ConfigWatch::Current() const { return impl_->Current(); }
WatchState ConfigWatch::State() const { return impl_->State(); }
std::string ConfigWatch::DescribeSource() const { return impl_->DescribeSource(); }

}  // namespace posthorn::config
