#pragma once

#include <atomic>
#include <cstdint>

#include "ratelimit/envelope.h"
#include "ratelimit/time.h"

namespace posthorn::ratelimit {

/// One window as the counter counts it.
struct Window {
  Label label = 0;
  std::int64_t cap = 0;  // permits of this window; 0 admits nothing
  bool smooth = true;    // false: all of them open at the window's start
  Nanoseconds x0{0};     // where the envelope starts, see Envelope
  std::int64_t n0 = 0;
  WallTime next_open = WallTime::max();  // when the next window with a share starts; max: none as far as is known
  Nanoseconds next_step{0};              // distance between its permits
};

/// Counts the permits of one window at a time, shared by all threads of a worker.
///
/// The state is one atomic word, stamp and count. A stamp stands for one window under one plan; a new window or a new
/// cap is a new stamp and an older stamp never comes back, so a taker that decided by an older view cannot count into
/// the newer one: its exchange fails and it looks again. That is also why a changed cap needs no pause: Change()
/// returns when nobody can take by the old one any more. Labels only rise. A `now` before the counter's window (a
/// thread that read the clock and was held up, a clock that stepped back) is taken for that window's start; a window
/// that has passed is never opened again.
///
/// Threads  Take, window, used: any. Change: one at a time, the owner's lock. Take never waits: while a change is under
///          way it says so.
/// Cost     Taking: one exchange of a word. Denied: loads only.
class WindowCounter {
 public:
  WindowCounter() = default;
  WindowCounter(const WindowCounter&) = delete;
  WindowCounter& operator=(const WindowCounter&) = delete;

  enum class Answer : std::uint8_t {
    kTaken,      // `label` is the window it counts for
    kNotYet,     // the envelope opens at `opens`, and again every `step`
    kUsedUp,     // nothing more in window `label`: `opens` and `step` are those of the next one with a share
    kNewWindow,  // `now` lies beyond the window counted: the owner must Change() first
    kChanging,   // a Change() is under way: wait for the owner's lock, then again
  };
  struct Result {
    Answer answer;
    Label label;
    WallTime opens{};
    Nanoseconds step{0};
  };
  enum class Pace : std::uint8_t { kEnvelope, kCapOnly };

  [[nodiscard]] Result Take(WallTime now, Pace pace);

  /// Replaces the window by what `next(const Window& current, used)` makes of it. The label must not be lower; the
  /// count goes on in the same label and starts at 0 in a higher one. Returns the permits used in the window it
  /// replaced.
  template <typename Next>
  std::int64_t Change(Next&& next) {
    const std::int64_t used = Close();
    Open(next(window_, used), used);
    return used;
  }

  [[nodiscard]] Label label() const { return label_.load(std::memory_order_acquire); }
  [[nodiscard]] const Window& window() const { return window_; }  // owner's lock
  [[nodiscard]] std::int64_t used() const;                        // of the window counted; owner's lock

 private:
  static constexpr std::uint32_t kClosed = 0xFFFF'FFFF;  // as a count; caps are below 2^31

  static constexpr std::uint32_t StampOf(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static constexpr std::uint32_t CountOf(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static constexpr std::uint64_t Word(std::uint32_t stamp, std::uint32_t count) {
    return std::uint64_t{stamp} << 32 | count;
  }

  std::int64_t Close();
  void Open(const Window& next, std::int64_t used);
  bool TailHasRoom(std::uint32_t stamp, std::uint32_t count, std::int64_t allowance);

  Window window_{};  // what was published last; touched under the owner's lock only

  // Published with release after the word was closed and read with acquire before the word is exchanged or read again:
  // a taker that has seen a newer value also sees a newer word.
  alignas(64) std::atomic<Label> label_{0};
  std::atomic<std::int64_t> cap_{0};
  std::atomic<std::int64_t> x0_{0};
  std::atomic<std::int64_t> n0_{0};
  std::atomic<bool> smooth_{true};
  std::atomic<std::int64_t> next_open_{WallTime::max().time_since_epoch().count()};
  std::atomic<std::int64_t> next_step_{0};

  alignas(64) std::atomic<std::uint64_t> word_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // stamp, and the count when its tail began
};

}  // namespace posthorn::ratelimit
