#include "config/sources/file_source.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "config/load.h"
#include "config/sources/file_reader.h"
#include "config/sources/path_watch.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A writer that never rests must not keep a change from being looked at.
constexpr milliseconds kLongestSettle{200};
// Half a file may be a valid one: while somebody holds it open after writing, this much patience.
constexpr milliseconds kLongestWriting{500};
// Files that are replaced without rest are taken as they are after so many readings.
constexpr int kMostDisturbances = 10;

}  // namespace

class FileSource::Impl {
 public:
  Impl(const std::filesystem::path& path, FileSourceOptions options)
      : shown_(path.string()),
        options_(options),
        watch_(options.inotify),
        stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    std::error_code error;
    const std::filesystem::path full = std::filesystem::absolute(path, error);
    path_ = (error ? path : full).string();
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  }
  ~Impl() {
    if (stop_ >= 0) close(stop_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Outcome Next(const std::string& have, milliseconds wait, const std::stop_token& stop) {
    std::uint64_t earlier = 0;  // a stop of another call
    [[maybe_unused]] const ssize_t drained = read(stop_, &earlier, sizeof(earlier));
    stopping_ = false;
    const std::stop_callback wake(stop, [this] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof(one));
    });
    const Clock::time_point deadline = Clock::now() + wait;
    if (have.empty() || have != revision_) {
      look_ = true;
      watch_.Follow(path_);
      if (ChangedJustNow(path_)) Settle();
    } else if (watch_.Drain() || MayHaveChanged()) {
      look_ = true;
      Settle();
    }
    for (;;) {
      if (stop.stop_requested()) return Stopped();
      if (std::exchange(look_, false)) {
        if (auto outcome = Look(have)) return std::move(*outcome);
      }
      if (Clock::now() >= deadline) {
        if (!failure_.empty()) return Failed{failure_, true, true};
        return Unchanged();
      }
      if (!look_) WaitForChange(deadline);
    }
  }

  std::string Describe() const { return "file " + shown_; }

 private:
  std::optional<Outcome> Look(const std::string& have) {
    watch_.Follow(path_);  // before the reading: what changes after it wakes us
    Reading reading = ReadDocuments(path_);
    // An event meanwhile may be the first half of a writing: emptied, and not filled yet.
    const bool disturbed = watch_.Drain() && ++disturbances_ < kMostDisturbances;
    if (reading.state == Reading::State::kTorn || disturbed) {
      Settle();
      look_ = true;
      return std::nullopt;
    }
    disturbances_ = 0;
    if (reading.state == Reading::State::kRead && IsNewlyEmpty(reading.files)) {
      AwaitContent();
      look_ = true;
      return std::nullopt;
    }
    racy_ = ChangedJustNow(path_);
    next_poll_ = Clock::now() + options_.poll;
    if (reading.state == Reading::State::kFailed) {
      signature_ = LookAt(path_);
      const std::string why = shown_ + ": " + reading.why;
      if (why == failure_) return std::nullopt;
      failure_ = why;
      return Failed{why, true, true};
    }
    signature_ = std::move(reading.signature);
    const bool recovered = !std::exchange(failure_, {}).empty();
    revision_ = Digest(reading.files);
    if (revision_ != have) return Changed{{revision_, "", std::move(reading.files)}};
    if (recovered) return Unchanged();
    return std::nullopt;
  }

  // Whether a file is empty that was not when it was read before.
  bool IsNewlyEmpty(const std::map<std::string, std::string>& files) {
    std::set<std::string> empty;
    for (const auto& [name, bytes] : files) {
      if (bytes.empty()) empty.insert(name);
    }
    const bool none = std::includes(empty_.begin(), empty_.end(), empty.begin(), empty.end());
    empty_ = std::move(empty);
    return !none;
  }

  // A file is seen empty before inotify tells of it, for as long as the disk takes to let go of the old content; then
  // somebody is about to fill it.
  void AwaitContent() {
    const Clock::time_point until = Clock::now() + kLongestWriting;
    while (Clock::now() < until && !stopping_ && Wait(until) && !watch_.Drain()) {
    }
    Settle();
  }

  // What inotify did not tell: other file systems, links from elsewhere, writes through memory.
  bool MayHaveChanged() {
    next_poll_ = Clock::now() + options_.poll;
    return std::exchange(racy_, false) || LookAt(path_) != signature_;
  }

  void WaitForChange(Clock::time_point deadline) {
    const bool told = Wait(std::min(deadline, next_poll_));
    if (told && watch_.Drain()) {
      Settle();
      look_ = true;
    } else if (Clock::now() >= next_poll_ && MayHaveChanged()) {
      Settle();
      look_ = true;
    }
  }

  // Returns after a quiet moment, when a writer has closed its file.
  void Settle() {
    const Clock::time_point begin = Clock::now();
    for (Clock::time_point quiet = begin;;) {
      const bool writing = watch_.Writing() && Clock::now() < begin + kLongestWriting;
      const Clock::time_point until = writing ? begin + kLongestWriting : quiet + options_.settle;
      if (Clock::now() >= until || (!writing && Clock::now() >= begin + kLongestSettle)) break;
      if (!Wait(until)) break;
      if (stopping_) break;
      if (watch_.Drain()) quiet = Clock::now();
    }
    watch_.ForgetWriting();
  }

  // True: an event or a stop. False: the time is over.
  bool Wait(Clock::time_point until) {
    std::array<pollfd, 2> waiting{{{stop_, POLLIN, 0}, {watch_.descriptor(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    const int timeout = static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
    const int ready = poll(waiting.data(), waiting.size(), timeout);
    if ((waiting[0].revents & POLLIN) != 0) stopping_ = true;
    return ready > 0;
  }

  const std::string shown_;
  std::string path_;
  const FileSourceOptions options_;
  PathWatch watch_;
  const int stop_;  // an eventfd, readable once a stop was asked for
  bool stopping_ = false;
  bool look_ = false;
  bool racy_ = false;  // changed within the clock's tick of the reading: equal times prove nothing
  int disturbances_ = 0;
  std::set<std::string> empty_;  // files, when they were last read
  std::string revision_;         // last read
  std::string signature_;        // of the last reading
  std::string failure_;          // empty: the last reading succeeded
  Clock::time_point next_poll_ = Clock::now();
};

FileSource::FileSource(const std::filesystem::path& path, FileSourceOptions options)
    : impl_(std::make_unique<Impl>(path, options)) {}
FileSource::~FileSource() = default;

Outcome FileSource::Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) {
  return impl_->Next(have, wait, stop);
}

std::string FileSource::Describe() const { return impl_->Describe(); }

}  // namespace posthorn::config
