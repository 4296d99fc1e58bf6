#include "ratelimit/limiter.h"

#include <algorithm>

namespace posthorn::ratelimit {

using Answer = WindowCounter::Answer;
using Pace = WindowCounter::Pace;

Limiter::Limiter(const Plan& plan, const Options& options, WallTime now)
    : phase_(options.phase), shares_(plan, options.timing, now), previous_label_(LabelAt(now) - 1) {
  counter_.Change([&](const Window&, std::int64_t) { return WindowFor(LabelAt(now)); });
}

Decision Limiter::Acquire(WallTime now, Nanoseconds max_wait) {
  for (;;) {
    const auto result = counter_.Take(now, Pace::kEnvelope);
    switch (result.answer) {
      case Answer::kTaken:
        return Admitted{result.label};
      case Answer::kNotYet:
      case Answer::kUsedUp:
        return Later(now, max_wait, result);
      case Answer::kNewWindow:
      case Answer::kChanging:
        break;
    }
    const std::lock_guard lock(mutex_);
    MoveTo(LabelAt(now));
  }
}

std::optional<Label> Limiter::Renew(WallTime now, Label taken) {
  for (;;) {
    if (LabelAt(now) <= taken && counter_.label() <= taken) return taken;
    const auto result = counter_.Take(now, Pace::kCapOnly);
    switch (result.answer) {
      case Answer::kTaken:
        return result.label;
      case Answer::kNotYet:
      case Answer::kUsedUp:
        return std::nullopt;
      case Answer::kNewWindow:
      case Answer::kChanging:
        break;
    }
    const std::lock_guard lock(mutex_);
    MoveTo(LabelAt(now));
  }
}

void Limiter::SetPlan(const Plan& plan, WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  const Label w = counter_.window().label;
  // A `now` that others have overtaken: they went by the old plan until at least the start of their window.
  now = std::max(now, StartOf(w));
  if (!shares_.Learn(plan, now)) return;
  Window next = WindowFor(w);
  counter_.Change([&](const Window& current, std::int64_t used) {
    if (next.cap > current.cap) {
      next.x0 = now - StartOf(w);
      next.n0 = std::min(used, next.cap);
    } else {
      next.x0 = current.x0;
      next.n0 = std::min(current.n0, next.cap);
    }
    return next;
  });
}

std::int64_t Limiter::UsedIn(Label w) const {
  const std::lock_guard lock(mutex_);
  if (w == counter_.window().label) return counter_.used();
  return w == previous_label_ ? previous_used_ : 0;
}

std::int64_t Limiter::PartialLimit(WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  return counter_.window().cap;
}

void Limiter::MoveTo(Label w) {
  const Label current = counter_.window().label;
  if (w <= current) return;
  const Window next = WindowFor(w);
  previous_used_ = counter_.Change([&](const Window&, std::int64_t) { return next; });
  previous_label_ = current;
}

Window Limiter::WindowFor(Label w) {
  Window window;
  window.label = w;
  window.cap = shares_.CapAt(w);
  window.smooth = shares_.plan().burst == Burst::kSmooth;
  if (const auto next = shares_.NextOpen(w)) {
    window.next_open = StartOf(*next);
    if (window.smooth) {
      const std::int64_t share = std::max<std::int64_t>(1, shares_.NewestShare(*next));
      window.next_step = Envelope{share, Nanoseconds(0), 0}.Step();
    }
  }
  return window;
}

Decision Limiter::Later(WallTime now, Nanoseconds max_wait, const WindowCounter::Result& denied) const {
  if (denied.opens == WallTime::max() || denied.opens - now > max_wait) return WontOpen{};
  const Nanoseconds step = std::min<Nanoseconds>(denied.step, kWindow / 4);
  const Nanoseconds stagger(static_cast<Nanoseconds::rep>(phase_ * static_cast<double>(step.count())));
  return TryAgainAt{now + std::min(denied.opens - now + stagger, max_wait)};
}

}  // namespace posthorn::ratelimit
