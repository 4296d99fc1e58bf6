#include "ratelimit/window_counter.h"

namespace posthorn::ratelimit {

WindowCounter::Result WindowCounter::Take(WallTime now, Pace pace) {
  const Label wanted = LabelAt(now);
  for (;;) {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint32_t count = CountOf(word);
    if (count == kClosed) return {Answer::kChanging, 0};
    const Label label = label_.load(std::memory_order_acquire);
    Envelope envelope;
    envelope.cap = cap_.load(std::memory_order_acquire);
    envelope.x0 = Nanoseconds(x0_.load(std::memory_order_acquire));
    envelope.n0 = n0_.load(std::memory_order_acquire);
    const bool paced = smooth_.load(std::memory_order_acquire) && pace == Pace::kEnvelope;

    // From here on the values may be a mixture of two windows. They are acted upon only after the word was seen
    // unchanged.
    const auto unchanged = [&] { return StampOf(word_.load(std::memory_order_relaxed)) == StampOf(word); };
    if (wanted > label) {
      if (unchanged()) return {Answer::kNewWindow, label};
      continue;
    }
    bool used_up = count >= envelope.cap;
    if (paced && !used_up) {
      if (count < envelope.n0) continue;  // a mixture: n0 permits were used before n0 was published
      const Nanoseconds x = wanted < label ? Nanoseconds(0) : now - StartOf(label);
      if (!envelope.Admits(count, x)) {
        if (unchanged()) return {Answer::kNotYet, label, StartOf(label) + envelope.OpensAt(count), envelope.Step()};
        continue;
      }
      used_up = Envelope::InTail(x) && !TailHasRoom(StampOf(word), count, envelope.TailAllowance());
    }
    if (used_up) {
      const WallTime opens(Nanoseconds(next_open_.load(std::memory_order_acquire)));
      const Nanoseconds step(next_step_.load(std::memory_order_acquire));
      if (unchanged()) return {Answer::kUsedUp, label, opens, step};
      continue;
    }
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      return {Answer::kTaken, label};
    }
  }
}

bool WindowCounter::TailHasRoom(std::uint32_t stamp, std::uint32_t count, std::int64_t allowance) {
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (StampOf(tail) != stamp) {
    // Whoever is first in the tail notes the count it began with. A note of a newer stamp stays; this taker's exchange
    // of the word will fail then.
    const bool newer = static_cast<std::int32_t>(StampOf(tail) - stamp) > 0;
    const std::uint64_t begun = Word(stamp, count);
    if (!newer && tail_.compare_exchange_strong(tail, begun, std::memory_order_relaxed)) tail = begun;
    if (StampOf(tail) != stamp) return true;
  }
  return std::int64_t{count} - std::int64_t{CountOf(tail)} < allowance;
}

std::int64_t WindowCounter::used() const { return CountOf(word_.load(std::memory_order_relaxed)); }

std::int64_t WindowCounter::Close() {
  const std::uint32_t stamp = StampOf(word_.load(std::memory_order_relaxed));
  return CountOf(word_.exchange(Word(stamp + 1, kClosed), std::memory_order_acq_rel));
}

void WindowCounter::Open(const Window& next, std::int64_t used) {
  const std::uint32_t stamp = StampOf(word_.load(std::memory_order_relaxed));
  const bool same_label = next.label == window_.label;
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (same_label && StampOf(tail) == stamp - 1) tail_.store(Word(stamp, CountOf(tail)), std::memory_order_relaxed);
  window_ = next;
  label_.store(next.label, std::memory_order_release);
  cap_.store(next.cap, std::memory_order_release);
  x0_.store(next.x0.count(), std::memory_order_release);
  n0_.store(next.n0, std::memory_order_release);
  smooth_.store(next.smooth, std::memory_order_release);
  next_open_.store(next.next_open.time_since_epoch().count(), std::memory_order_release);
  next_step_.store(next.next_step.count(), std::memory_order_release);
  word_.store(Word(stamp, same_label ? static_cast<std::uint32_t>(used) : 0), std::memory_order_release);
}

}  // namespace posthorn::ratelimit
