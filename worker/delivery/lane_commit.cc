// What a lane takes over from whoever had its partition before, and what it leaves for the next one.
#include <algorithm>

#include "worker/delivery/lane.h"
#include "worker/delivery/shard.h"

namespace posthorn::delivery {
namespace {

std::int64_t WholeMilliseconds(runtime::WallTime at) {
  return std::chrono::ceil<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

}  // namespace

/// The end of the run of finished messages that `offset` is in.
std::optional<Offset> Lane::FinishedBefore(Offset offset) {
  while (!finished_before_.empty() && finished_before_.front().end <= offset) finished_before_.pop_front();
  if (finished_before_.empty() || finished_before_.front().first > offset) return std::nullopt;
  return finished_before_.front().end;
}

/// Goes on with what is known of a message from before.
void Lane::Recall(Delivery& delivery) {
  const auto& now = shard_.loop().now();
  const auto offset = delivery.record->offset();
  remembered_.erase(remembered_.begin(), remembered_.lower_bound(offset));  // those do not exist any more
  const auto* retry = delivery.record->retry();
  CommitState::Tried tried;
  if (!remembered_.empty() && remembered_.begin()->first == offset) {
    tried = remembered_.begin()->second;
    remembered_.erase(remembered_.begin());
  } else if (retry != nullptr && retry->first_seen_ms) {
    tried = {offset, retry->attempts, *retry->first_seen_ms, retry->due_ms.value_or(0)};
  } else {
    return;
  }
  const runtime::WallTime first_seen{std::chrono::milliseconds(tried.first_seen_ms)};
  delivery.attempts = tried.attempts;
  // Another machine's clock may be ahead of this one's.
  delivery.could_be_tried = now.steady - std::max(now.wall - first_seen, runtime::Nanoseconds(0));
  if (tried.attempts > 0) delivery.first_attempt = first_seen;
  const auto& config = *subscription_->config;
  const auto due_in = std::chrono::milliseconds(tried.due_ms) -
                      std::chrono::floor<std::chrono::milliseconds>(now.wall.time_since_epoch());
  delivery.due = now.steady + std::min(due_in, std::max(config.backoff.max, config.retry_after_max));
}

/// A closing lane lets go of a message that is not finished; what is known of it is committed.
void Lane::PutBack(Delivery& delivery) {
  if (delivery.could_be_tried) {
    remembered_[delivery.record->offset()] = Known(delivery);
    state_changed_ = true;
  }
  spare_.push_back(Remove(delivery));
}

CommitState::Tried Lane::Known(const Delivery& delivery) const {
  const auto& now = shard_.loop().now();
  CommitState::Tried tried;
  tried.offset = delivery.record->offset();
  // What is in flight may never have been sent: it counts when it has an answer.
  tried.attempts = delivery.attempts - (delivery.state == Delivery::State::kInFlight ? 1 : 0);
  tried.first_seen_ms = WholeMilliseconds(now.wall - (now.steady - *delivery.could_be_tried));
  tried.due_ms = delivery.state != Delivery::State::kDeadLetter && delivery.due > now.steady
                     ? WholeMilliseconds(now.wall + (delivery.due - now.steady))
                     : tried.first_seen_ms;
  return tried;
}

CommitState Lane::State() const {
  CommitState state;
  state.finished = tracker_.FinishedAhead();
  for (auto range : finished_before_) {
    range.first = std::max(range.first, next_to_take_);  // below, the tracker knows
    if (range.first < range.end) state.finished.push_back(range);
  }
  for (const auto& delivery : all_) {
    if (delivery->could_be_tried) state.tried.push_back(Known(*delivery));
  }
  for (const auto& [offset, tried] : remembered_) state.tried.push_back(tried);
  if (!parked_keys_.empty()) state.parked = parked_keys_.ForNextOwner();
  std::sort(state.tried.begin(), state.tried.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return state;
}

void Lane::Commit(bool urgent) {
  finished_since_commit_ = 0;
  if (lost_) return;
  if (tracker_.next() == committed_ && !state_changed_) return;
  committed_ = tracker_.next();
  state_changed_ = false;
  shard_.offsets().Update(key(), Position{committed_, EncodeCommitState(committed_, State())}, urgent,
                          /*changed=*/true);
}

}  // namespace posthorn::delivery
