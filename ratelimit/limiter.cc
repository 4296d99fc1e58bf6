#include "ratelimit/limiter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace posthorn::ratelimit {

using Answer = WindowCounter::Answer;
using Pace = WindowCounter::Pace;

namespace {

std::variant<ShareHistory, LeasedShares> SharesFor(const Plan& plan, const Limiter::Options& options, WallTime now) {
  if (options.by_lease) return LeasedShares(options.by_lease->limit, options.by_lease->process, plan, now);
  return ShareHistory(plan, options.timing, now);
}

}  // namespace

Limiter::Limiter(const Plan& plan, const Options& options, WallTime now)
    : phase_(options.phase), shares_(SharesFor(plan, options, now)), previous_label_(LabelAt(now) - 1) {
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
  if (std::visit([&](auto& shares) { return shares.Learn(plan, now); }, shares_)) Publish(now);
}

/// The running window anew, by what is in force now. True: something may open earlier than those who wait were told.
bool Limiter::Publish(WallTime now) {
  const Label w = counter_.window().label;
  now = std::max(now, StartOf(w));
  Window next = WindowFor(w);
  bool sooner = false;
  counter_.Change([&](const Window& current, std::int64_t used) {
    sooner = next.cap > current.cap || next.next_open < current.next_open;
    if (next.cap > current.cap) {
      next.x0 = now - StartOf(w);
      next.n0 = std::min(used, next.cap);
    } else {
      next.x0 = current.x0;
      next.n0 = std::min(current.n0, next.cap);
    }
    return next;
  });
  return sooner;
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

Limiter::Taken Limiter::Accept(const Grant& grant, WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  auto& shares = std::get<LeasedShares>(shares_);
  const Label w = counter_.window().label;
  Taken taken;
  std::vector<std::int64_t> before;
  for (Label label = w; label < grant.end() && label < w + kLongestLease; ++label) {
    before.push_back(shares.lease().CapAt(label).permits);
  }
  taken.held = shares.Accept(grant, std::max(now, StartOf(w)));
  if (!taken.held) return taken;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (shares.lease().CapAt(w + static_cast<Label>(i)).permits < before[i]) taken.less = true;
  }
  taken.sooner = Publish(now);
  return taken;
}

void Limiter::Fence(bool fenced, WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  std::get<LeasedShares>(shares_).Fence(fenced);
  Publish(now);
}

void Limiter::Leave(WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  std::get<LeasedShares>(shares_).Leave();
  Publish(now);
}

LimitReport Limiter::Report(std::int64_t demand, bool starved, WallTime now) {
  const std::lock_guard lock(mutex_);
  MoveTo(LabelAt(now));
  const Label w = counter_.window().label;
  const std::int64_t before = previous_label_ == w - 1 ? previous_used_ : 0;
  return std::get<LeasedShares>(shares_).lease().Report(counter_.used(), before, demand, starved);
}

std::optional<Limiter::LeaseState> Limiter::StateOfLease(WallTime now) {
  const std::lock_guard lock(mutex_);
  const auto* shares = std::get_if<LeasedShares>(&shares_);
  if (shares == nullptr) return std::nullopt;
  MoveTo(LabelAt(now));
  const Lease& lease = shares->lease();
  return LeaseState{lease.CapAt(counter_.window().label), lease.CoveredUntil(), lease.held(), shares->fenced()};
}

void Limiter::MoveTo(Label w) {
  const Label current = counter_.window().label;
  if (w <= current) return;
  const Window next = WindowFor(w);
  previous_used_ = counter_.Change([&](const Window&, std::int64_t) { return next; });
  previous_label_ = current;
  // Its reports are of the window that is counted, never of an earlier one.
  if (auto* leased = std::get_if<LeasedShares>(&shares_)) leased->Advance(w);
}

std::int64_t Limiter::CapAt(Label w) {
  return std::visit([w](auto& shares) { return shares.CapAt(w); }, shares_);
}

std::int64_t Limiter::NewestShare(Label w) {
  if (auto* history = std::get_if<ShareHistory>(&shares_)) return history->NewestShare(w);
  return CapAt(w);
}

Window Limiter::WindowFor(Label w) {
  Window window;
  window.label = w;
  window.cap = CapAt(w);
  window.smooth = std::visit([w](auto& shares) { return shares.plan().BurstAt(w); }, shares_) == Burst::kSmooth;
  if (const auto next = std::visit([w](auto& shares) { return shares.NextOpen(w); }, shares_)) {
    window.next_open = StartOf(*next);
    if (window.smooth) {
      const std::int64_t share = std::max<std::int64_t>(1, NewestShare(*next));
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
