#include "config/sources/config_watch.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "config/sources/errand_thread.h"
#include "config/sources/last_good.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using ratelimit::WallTime;
using std::chrono::milliseconds;

constexpr milliseconds kWait{30'000};     // of one question to the source
constexpr milliseconds kOverdue{15'000};  // beyond it: the source hangs
constexpr milliseconds kEndPatience{80};  // with an errand at the end
constexpr milliseconds kFirstBackoff{100};
constexpr milliseconds kLongestBackoff{4'000};  // a source that is back is heard within five seconds
constexpr milliseconds kLongestRetryAfter{300'000};
constexpr milliseconds kLookAtClock{200};        // it may be set while an `effective_at` is awaited
constexpr std::chrono::seconds kShortNotice{1};  // others may learn a revision that much later

WallTime SystemWallClock() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return WallTime(std::chrono::duration_cast<ratelimit::Nanoseconds>(since));
}

Outcome Ask(Source& source, const std::string& have, const std::stop_token& stop) {
  try {
    return source.Next(have, kWait, stop);
  } catch (const std::exception& error) {
    return Failed{std::string("unexpected: ") + error.what()};
  }
}

}  // namespace

class ConfigWatch::Impl {
 public:
  Impl(std::unique_ptr<Source> source, ConfigWatchOptions options, ConfigObserver* observer)
      : source_(std::move(source)), options_(std::move(options)), observer_(observer) {
    if (!options_.wall_clock) options_.wall_clock = &SystemWallClock;
    if (options_.source_identity.empty()) options_.source_identity = source_->Describe();
    if (!options_.cache.empty()) disk_ = std::make_shared<const LastGood>(options_.cache, options_.cache_name);
  }
  ~Impl() { Stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Listen(Listener listener) {
    const std::lock_guard publishing(publishing_);
    if (const SnapshotPtr current = Current()) listener(current);
    listeners_.push_back(std::move(listener));
  }

  void ListenScheduled(Listener listener) {
    const std::lock_guard publishing(publishing_);
    if (const SnapshotPtr scheduled = State().scheduled) listener(scheduled);
    scheduled_listeners_.push_back(std::move(listener));
  }

  void Start() {
    if (thread_.joinable()) return;
    errands_.emplace();
    if (disk_) disk_errands_.emplace();
    thread_ = std::thread([this] { Run(); });
  }

  void Stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mail_->mutex);
      mail_->stop = true;
      mail_->changed.notify_all();
    }
    thread_.join();
    const Clock::time_point end = Clock::now() + kEndPatience;
    errands_->Stop(kEndPatience);
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (disk_errands_) disk_errands_->Stop(std::max(left, milliseconds(0)));
  }

  SnapshotPtr Current() const {
    const std::lock_guard lock(mutex_);
    return state_.current;
  }

  WatchState State() const {
    const std::lock_guard lock(mutex_);
    WatchState state = state_;
    state.ignored = source_->Ignored();
    state.source = source_->Describe();
    return state;
  }

  std::string DescribeSource() const { return source_->Describe(); }

 private:
  /// What the errands have brought, and whether to stop: where the two threads meet.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    bool stop = false;
    std::optional<Outcome> outcome;
    std::optional<LastGood::Reading> kept;
    std::optional<std::string> keeping;  // why it failed; empty: done
  };

  struct Revision {
    KeptRevision kept;
    SnapshotPtr snapshot;
    bool from_disk = false;
  };

  void Run() {
    const Clock::time_point started = Clock::now();
    if (disk_) ReadDisk();
    ask_at_ = started;
    patience_until_ = started + options_.patience;
    for (;;) {
      if (!asking_ && Clock::now() >= ask_at_) AskSource();
      std::optional<Outcome> outcome;
      std::optional<LastGood::Reading> kept;
      std::optional<std::string> keeping;
      {
        std::unique_lock lock(mail_->mutex);
        mail_->changed.wait_until(lock, NextWake(),
                                  [this] { return mail_->stop || mail_->outcome || mail_->kept || mail_->keeping; });
        if (mail_->stop) return;
        outcome = std::exchange(mail_->outcome, std::nullopt);
        kept = std::exchange(mail_->kept, std::nullopt);
        keeping = std::exchange(mail_->keeping, std::nullopt);
      }
      SwitchIfDue();  // before what came may call it off
      if (keeping) NoteCache(*keeping);
      if (kept) TakeKept(std::move(*kept));
      if (outcome) TakeOutcome(std::move(*outcome));
      JudgeAgainIfDue();
      if (asking_ && Clock::now() >= overdue_at_) {
        overdue_at_ = Clock::time_point::max();
        NoteFailure("the source does not answer");
      }
      FallBack();
      SwitchIfDue();
    }
  }

  void ReadDisk() {
    disk_errands_->Post([mail = mail_, disk = disk_](const std::stop_token&) {
      LastGood::Reading reading = disk->Read();
      const std::lock_guard lock(mail->mutex);
      mail->kept = std::move(reading);
      mail->changed.notify_all();
    });
  }

  Clock::time_point NextWake() const {
    Clock::time_point next = asking_ ? overdue_at_ : ask_at_;
    if (kept_)
      next = std::min(next, std::max(kept_again_at_.value_or(patience_until_), Clock::now() + milliseconds(1)));
    if (refused_) next = std::min(next, judge_again_at_);
    if (scheduled_) {
      const auto left = std::chrono::ceil<milliseconds>(*scheduled_->snapshot->effective_at - options_.wall_clock());
      next = std::min(next, Clock::now() + std::clamp(left, milliseconds(0), kLookAtClock));
    }
    // Far enough, and no overflow in the wait.
    return std::min(next, Clock::now() + std::chrono::hours(1));
  }

  void AskSource() {
    asking_ = true;
    asked_at_ = Clock::now();
    overdue_at_ = asked_at_ + kWait + kOverdue;
    errands_->Post([mail = mail_, source = source_, have = have_](const std::stop_token& stop) {
      Outcome outcome = Ask(*source, have, stop);
      const std::lock_guard lock(mail->mutex);
      mail->outcome = std::move(outcome);
      mail->changed.notify_all();
    });
  }

  void TakeOutcome(Outcome outcome) {
    asking_ = false;
    ask_at_ = Clock::now();
    if (std::holds_alternative<Stopped>(outcome)) outcome = Failed{"it stopped by itself"};
    if (const Failed* failed = std::get_if<Failed>(&outcome)) {
      NoteFailure(failed->why);
      if (failed->source_waits) return;
      // A store that was reset may have passed our revision already: ask for all, compare the content.
      have_.clear();
      const milliseconds asked_for = std::min(failed->retry_after, kLongestRetryAfter);
      // What was spent on waiting in vain counts: who hung for long is asked again soon.
      const auto wanted = asked_at_ + Jittered(failed->retryable ? backoff_ : kLongestBackoff);
      ask_at_ = std::max({ask_at_ + asked_for, ask_at_ + Jittered(kFirstBackoff), wanted});
      backoff_ = std::min(backoff_ * 2, kLongestBackoff);
      return;
    }
    NoteRecovery();
    backoff_ = kFirstBackoff;
    if (Changed* changed = std::get_if<Changed>(&outcome)) {
      have_ = changed->snapshot.revision;
      Take(std::move(changed->snapshot));
    }
  }

  void Take(RawSnapshot raw) {
    std::string digest = Digest(raw.files);
    if (digest == seen_) return;
    seen_ = digest;
    refused_.reset();
    Judge({std::move(raw), std::move(digest), {}}, true);
  }

  // `looked`: it names files, which may come or change without the source telling.
  Loaded<Snapshot> Load(const std::map<std::string, std::string>& files, bool* looked) const {
    Environment environment = options_.environment;
    environment.read_file = [this, looked](const std::string& path, std::string* why) {
      *looked = true;
      return options_.environment.read_file(path, why);
    };
    return LoadSubscriptions(files, options_.capabilities, environment);
  }

  struct Refused {
    RawSnapshot raw;
    std::string digest;
    std::vector<Fault> faults;
  };

  void JudgeAgainIfDue() {
    if (!refused_ || Clock::now() < judge_again_at_) return;
    Refused refused = std::move(*refused_);
    refused_.reset();
    Judge(std::move(refused), false);
  }

  void Judge(Refused candidate, bool first) {
    bool looked = false;
    Loaded<Snapshot> loaded = Load(candidate.raw.files, &looked);
    if (loaded) {
      Accept(std::move(candidate.raw), std::move(*loaded.value));
      return;
    }
    if (first || loaded.faults != candidate.faults) {
      const Refusal refusal{candidate.digest, candidate.raw.number, loaded.faults};
      {
        const std::lock_guard lock(mutex_);
        if (first) ++state_.refused;
        state_.newest_refused = true;
        state_.last_refused = refusal;
      }
      if (observer_ != nullptr) observer_->OnRefused(refusal);
    }
    if (!looked) return;
    candidate.faults = std::move(loaded.faults);
    refused_ = std::move(candidate);
    judge_again_at_ = Clock::now() + options_.judge_again;
  }

  void Accept(RawSnapshot raw, Snapshot snapshot) {
    snapshot.source_revision = raw.number;
    Revision revision;
    revision.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
    const WallTime now = options_.wall_clock();
    revision.kept = {options_.source_identity, std::move(raw.number), now, std::move(raw.files)};
    const auto& effective_at = revision.snapshot->effective_at;
    // Who starts with a revision of the past has missed nothing, and neither has who was there at that time: documents
    // may keep it.
    const SnapshotPtr current = Current();
    const bool missed = current && current->effective_at != effective_at;
    const bool late = effective_at && *effective_at < now + kShortNotice && (*effective_at > now || missed);
    {
      const std::lock_guard lock(mutex_);
      state_.newest_refused = false;
      if (late) ++state_.late;
    }
    if (effective_at && *effective_at > now) {
      Schedule(std::move(revision));
      Keep(nullptr, &*scheduled_);
    } else {
      scheduled_.reset();
      PutInForce(revision, Clock::now());
      Keep(&revision, nullptr);
    }
  }

  void Schedule(Revision revision) {
    const SnapshotPtr snapshot = revision.snapshot;
    scheduled_ = std::move(revision);
    const std::lock_guard publishing(publishing_);
    {
      const std::lock_guard lock(mutex_);
      state_.scheduled = snapshot;
    }
    if (observer_ != nullptr) observer_->OnScheduled(snapshot);
    for (const Listener& listener : scheduled_listeners_) listener(snapshot);
  }

  void SwitchIfDue() {
    if (!scheduled_ || *scheduled_->snapshot->effective_at > options_.wall_clock()) return;
    const Revision revision = std::move(*scheduled_);
    scheduled_.reset();
    PutInForce(revision, Clock::now());
    Keep(&revision, nullptr);
  }

  void PutInForce(const Revision& revision, Clock::time_point accepted_at) {
    const std::lock_guard publishing(publishing_);
    {
      const std::lock_guard lock(mutex_);
      ++state_.accepted;
      state_.current = revision.snapshot;
      state_.scheduled = scheduled_ ? scheduled_->snapshot : nullptr;
      state_.last_good = revision.from_disk;
      state_.accepted_at = accepted_at;
    }
    if (observer_ != nullptr && revision.from_disk) {
      const auto age = std::chrono::floor<milliseconds>(options_.wall_clock() - revision.kept.taken);
      observer_->OnLastGood(revision.snapshot, std::max(milliseconds(0), age));
    } else if (observer_ != nullptr) {
      observer_->OnAccepted(revision.snapshot);
    }
    for (const Listener& listener : listeners_) listener(revision.snapshot);
    // What is put in force calls off what was to come; beside the last good revision it is not.
    if (!scheduled_) return;
    for (const Listener& listener : scheduled_listeners_) listener(scheduled_->snapshot);
  }

  // ---- the disk

  /// What is to be written: a disk that hangs must not make a queue of what is older.
  struct ToKeep {
    std::mutex mutex;
    bool posted = false;
    std::optional<KeptRevision> in_force;  // unset: as it is there
    std::optional<KeptRevision> scheduled;
  };

  void Keep(const Revision* in_force, const Revision* scheduled) {
    if (!disk_) return;
    {
      const std::lock_guard lock(to_keep_->mutex);
      if (in_force != nullptr) to_keep_->in_force = in_force->kept;
      to_keep_->scheduled = scheduled != nullptr ? std::optional(scheduled->kept) : std::nullopt;
      if (std::exchange(to_keep_->posted, true)) return;
    }
    disk_errands_->Post([mail = mail_, disk = disk_, to_keep = to_keep_](const std::stop_token&) {
      std::optional<KeptRevision> force;
      std::optional<KeptRevision> later;
      {
        const std::lock_guard lock(to_keep->mutex);
        to_keep->posted = false;
        force = std::exchange(to_keep->in_force, std::nullopt);
        later = std::exchange(to_keep->scheduled, std::nullopt);
      }
      std::string why = disk->Keep(force ? &*force : nullptr, later ? &*later : nullptr);
      const std::lock_guard lock(mail->mutex);
      mail->keeping = std::move(why);
      mail->changed.notify_all();
    });
  }

  void TakeKept(LastGood::Reading kept) {
    if (!kept.warning.empty()) NoteCache(kept.warning);
    for (auto* revision : {&kept.in_force, &kept.scheduled}) {
      if (!*revision || (*revision)->source == options_.source_identity) continue;
      NoteCache("what was kept is of another source: " + (*revision)->source);
      revision->reset();
    }
    if (kept.in_force || kept.scheduled) kept_ = std::move(kept);
  }

  // What was kept, when the source gives nothing to run: it is away, hangs, or has a bad revision or a later one.
  void FallBack() {
    if (!kept_) return;
    if (Current()) {
      kept_.reset();
      return;
    }
    const WatchState state = State();
    const bool needed = !state.source_failure.empty() || state.newest_refused || scheduled_;
    if (kept_again_at_ ? Clock::now() < *kept_again_at_ : !needed && Clock::now() < patience_until_) return;
    const LastGood::Reading kept = std::move(*kept_);
    kept_.reset();
    bool later = false;  // it names files that are not there yet
    if (kept.in_force) RunKept(*kept.in_force, &later);
    if (kept.scheduled && !scheduled_) RunKept(*kept.scheduled, &later);
    if (Current() || !later) return;
    kept_ = kept;
    kept_again_at_ = Clock::now() + options_.judge_again;
  }

  void RunKept(const KeptRevision& kept, bool* later) {
    bool looked = false;
    Loaded<Snapshot> loaded = Load(kept.files, &looked);
    if (!loaded) {
      *later = *later || looked;
      NoteCache("what was kept is refused: " + ToString(loaded.faults.front()));
      return;
    }
    loaded.value->source_revision = kept.number;
    Revision revision{kept, std::make_shared<const Snapshot>(std::move(*loaded.value)), true};
    const WallTime now = options_.wall_clock();
    const auto& effective_at = revision.snapshot->effective_at;
    if (effective_at && *effective_at > now) {
      Schedule(std::move(revision));
      return;
    }
    PutInForce(revision, Clock::now() - std::max(milliseconds(0), std::chrono::floor<milliseconds>(now - kept.taken)));
  }

  void NoteCache(const std::string& why) {
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      news = std::exchange(state_.cache_failure, why) != why;
    }
    if (news && !why.empty() && observer_ != nullptr) observer_->OnCacheFailed(why);
  }

  // ---- the source

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

  milliseconds Jittered(milliseconds most) {
    std::uniform_int_distribution<std::int64_t> jitter(most.count() / 2, most.count());
    return milliseconds(jitter(random_));
  }

  const std::shared_ptr<Source> source_;
  ConfigWatchOptions options_;
  ConfigObserver* const observer_;
  std::shared_ptr<const LastGood> disk_;  // null: nothing is kept

  mutable std::mutex mutex_;  // state_
  WatchState state_;
  std::mutex publishing_;  // listeners; held while they are called, so that none misses a revision or sees two at once
  std::vector<Listener> listeners_;
  std::vector<Listener> scheduled_listeners_;

  // Of the watch's thread.
  std::string have_;
  std::string seen_;                // digest of the source's newest revision, taken or refused
  std::optional<Refused> refused_;  // the newest revision, when it may be taken later as it is
  Clock::time_point judge_again_at_;
  std::optional<Revision> scheduled_;
  std::optional<LastGood::Reading> kept_;           // read, and neither needed nor superseded yet
  std::optional<Clock::time_point> kept_again_at_;  // unset: it has not been judged
  bool asking_ = false;
  milliseconds backoff_ = kFirstBackoff;
  Clock::time_point ask_at_;
  Clock::time_point asked_at_;
  Clock::time_point overdue_at_;
  Clock::time_point patience_until_;
  std::minstd_rand random_{std::random_device{}()};

  const std::shared_ptr<Mailbox> mail_ = std::make_shared<Mailbox>();
  const std::shared_ptr<ToKeep> to_keep_ = std::make_shared<ToKeep>();
  std::optional<ErrandThread> errands_;       // of the source
  std::optional<ErrandThread> disk_errands_;  // of the last good revision; unset: none is kept
  std::thread thread_;
};

ConfigWatch::ConfigWatch(std::unique_ptr<Source> source, ConfigWatchOptions options, ConfigObserver* observer)
    : impl_(std::make_unique<Impl>(std::move(source), std::move(options), observer)) {}
ConfigWatch::~ConfigWatch() = default;

void ConfigWatch::Listen(Listener listener) { impl_->Listen(std::move(listener)); }
void ConfigWatch::ListenScheduled(Listener listener) { impl_->ListenScheduled(std::move(listener)); }
void ConfigWatch::Start() { impl_->Start(); }
void ConfigWatch::Stop() { impl_->Stop(); }
SnapshotPtr ConfigWatch::Current() const { return impl_->Current(); }
WatchState ConfigWatch::State() const { return impl_->State(); }
std::string ConfigWatch::DescribeSource() const { return impl_->DescribeSource(); }

}  // namespace posthorn::config
