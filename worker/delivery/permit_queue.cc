#include "worker/delivery/permit_queue.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "worker/delivery/lane.h"
#include "worker/delivery/shard.h"

namespace posthorn::delivery {
namespace {

/// Waking for every single permit of a fast limit would cost more than the permits: what opens within a millisecond is
/// taken together. Unused credit carries over inside the window, so nothing is lost.
constexpr auto kTimerQuantum = std::chrono::milliseconds(1);
constexpr auto kLongestWait = std::chrono::hours(1);
/// How long a shard whose turn it is may leave an open permit lying. Its loop may be busy, or hang.
constexpr auto kYieldAtMost = std::chrono::milliseconds(20);

}  // namespace

PermitQueue::PermitQueue(Shard& shard, std::shared_ptr<ratelimit::Limiter> limiter, std::shared_ptr<PermitTurns> turns)
    : shard_(shard), limiter_(std::move(limiter)), turns_(std::move(turns)) {}

PermitQueue::~PermitQueue() {
  for (Lane* lane : lanes_) lane->queued_in = nullptr;
  NoteWaiting(false);
  shard_.Forget(*this);
}

void PermitQueue::Add(Lane& lane) {
  lane.queued_in = this;
  lanes_.push_back(&lane);
}

void PermitQueue::Remove(Lane& lane) {
  lane.queued_in = nullptr;
  lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), &lane), lanes_.end());
  if (lanes_.empty()) NoteWaiting(false);
}

void PermitQueue::NoteWaiting(bool waits) {
  if (waits == waits_) return;
  waits_ = waits;
  yields_since_ = {};
  if (turns_) turns_->SetWaiting(shard_.index(), waits);
}

/// A permit may be open, but another shard that waits has had less.
bool PermitQueue::Yields(const runtime::Now& now) {
  if (!turns_ || !waits_ || now.steady < opens_ || turns_->MayGo(shard_.index())) {
    yields_since_ = {};
    return false;
  }
  if (yields_since_ == runtime::SteadyTime()) yields_since_ = now.steady;
  return now.steady - yields_since_ < kYieldAtMost;
}

void PermitQueue::Pump(const runtime::Now& now) {
  if (!shard_.MayGivePermits(now)) return;  // pumped again when the membership is confirmed
  if (Yields(now)) {
    ArmTimer(now, kTimerQuantum);
    return;
  }
  while (!lanes_.empty()) {
    Lane& lane = *lanes_.front();
    auto& subscription = lane.subscription();
    if (lane.Head(now) == nullptr) {
      lanes_.pop_front();
      lane.queued_in = nullptr;
      continue;
    }
    if (!subscription.health->Pass(lane, now)) {
      lanes_.pop_front();
      lane.queued_in = nullptr;
      continue;
    }
    if (!subscription.shared->slots.TakeOrWait(shard_.index(), subscription.slots_held, subscription.yields_slots)) {
      subscription.health->GiveBack(now);
      lanes_.pop_front();
      lane.queued_in = nullptr;
      lane.waits_for_slot = true;
      subscription.waiting_for_slot.push_back(&lane);
      continue;
    }
    ++subscription.slots_held;
    ratelimit::Label label = ratelimit::LabelAt(now.wall);
    if (limiter_) {
      const auto decision = limiter_->Acquire(now.wall, kLongestWait);
      const auto* admitted = std::get_if<ratelimit::Admitted>(&decision);
      if (admitted == nullptr) {
        subscription.health->GiveBack(now);
        shard_.ReleaseSlot(subscription, /*used=*/false);
        auto wait = std::chrono::duration_cast<runtime::Nanoseconds>(kLongestWait);
        if (const auto* later = std::get_if<ratelimit::TryAgainAt>(&decision)) wait = later->at - now.wall;
        opens_ = now.steady + wait;
        NoteWaiting(true);
        ArmTimer(now, std::max<runtime::Nanoseconds>(wait, kTimerQuantum));
        return;
      }
      label = admitted->label;
      if (turns_) turns_->Took(shard_.index(), lanes_.size());
    }
    lanes_.pop_front();
    lanes_.push_back(&lane);
    lane.StartAttempt(now, label);
  }
  NoteWaiting(false);
}

void PermitQueue::ArmTimer(const runtime::Now& now, runtime::Nanoseconds wait) {
  const auto at = now.steady + wait;
  if (armed_for_ > now.steady && armed_for_ <= at) return;  // it fires early enough; arming anew would cost more
  if (!timer_) {
    timer_ = shard_.loop().MakeTimer([this] {
      armed_for_ = {};
      Pump(shard_.loop().now());
    });
  }
  armed_for_ = at;
  timer_->Arm(at);
}

}  // namespace posthorn::delivery
