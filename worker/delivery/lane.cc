#include "worker/delivery/lane.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "worker/delivery/backoff.h"
#include "worker/delivery/shard.h"
#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

constexpr auto kDeadLetterRetry = std::chrono::seconds(1);

bool DueLater(const Delivery* a, const Delivery* b) { return a->due > b->due; }

/// Milliseconds as nanoseconds without running over: a TTL, or a timestamp some producer gave, may be anything.
runtime::Nanoseconds Saturated(std::chrono::milliseconds ms) {
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::milliseconds>(runtime::Nanoseconds::max());
  return std::clamp(ms, -kMost, kMost);
}

std::int64_t WholeMilliseconds(runtime::WallTime at) {
  return std::chrono::ceil<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

/// Retries first, in the order they came due; then what was never tried, by offset.
Offset ReadyOrder(const Delivery& delivery) { return delivery.attempts > 0 ? -1 : delivery.record->offset(); }

void ObserveDuration(ShardStats& stats, runtime::Nanoseconds elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const auto bucket = std::lower_bound(kDurationBoundsSeconds.begin(), kDurationBoundsSeconds.end(), seconds) -
                      kDurationBoundsSeconds.begin();
  stats.duration_buckets[static_cast<std::size_t>(bucket)].Add(1);
  stats.duration_sum_ns.Add(static_cast<std::uint64_t>(std::max<std::int64_t>(elapsed.count(), 0)));
}

}  // namespace

bool Delivery::OnBeforeWrite() noexcept { return lane.shard().MayWrite(*this); }

void Delivery::OnFinished(const Response& response) noexcept { lane.FinishAttempt(*this, response); }

Lane::Lane(Shard& shard, std::shared_ptr<SubscriptionOnShard> subscription, std::shared_ptr<LaneStats> stats,
           Partition& partition, Offset next, CommitState known, PartitionRing::Sequence cursor)
    : shard_(shard),
      subscription_(std::move(subscription)),
      stats_(std::move(stats)),
      partition_(partition),
      cursor_(cursor),
      next_to_take_(next),
      tracker_(next),
      committed_(next),
      finished_before_(known.finished.begin(), known.finished.end()) {
  for (const auto& tried : known.tried) remembered_[tried.offset] = tried;
}

Lane::~Lane() {
  assert(in_flight_ == 0);
  if (queued_in != nullptr) queued_in->Remove(*this);
  ready_.clear();
  waiting_.clear();
  UpdateGauges();
}

Delivery* Lane::Head(const runtime::Now& now) {
  if (closing_ || subscription_->stopped) return nullptr;
  for (;;) {
    if (ready_.empty() && Take() == nullptr) {
      UpdateGauges();
      return nullptr;
    }
    Delivery* head = ready_.front();
    const bool exhausted = Exhausted(*head);
    if (!exhausted && TimeLeft(*head, now) > runtime::Nanoseconds(0)) {
      UpdateGauges();
      return head;
    }
    ready_.pop_front();
    GiveUp(*head, exhausted ? DeadLetterReason::kAttempts : DeadLetterReason::kExpired);
  }
}

Delivery* Lane::Take() {
  if (!attached_) return nullptr;
  while (HasRoom()) {
    const RecordPtr* record = partition_.ring.At(cursor_);
    if (record == nullptr) break;
    ++cursor_;
    shard_.Touched(partition_);
    const auto offset = (*record)->offset();
    if (offset < next_to_take_) continue;  // read again after a rewind for another lane
    next_to_take_ = offset + 1;
    const auto ticket = tracker_.Start(offset);
    if (FinishedBefore(offset)) {
      tracker_.Finish(ticket);
      stats_->next.store(tracker_.next(), std::memory_order_relaxed);
      continue;
    }
    std::unique_ptr<Delivery> delivery;
    if (spare_.empty()) {
      delivery = std::make_unique<Delivery>(*this);
    } else {
      delivery = std::move(spare_.back());
      spare_.pop_back();
    }
    delivery->record = *record;
    delivery->ticket = ticket;
    delivery->state = Delivery::State::kReady;
    delivery->slot = all_.size();
    all_.push_back(std::move(delivery));
    if (Recall(*all_.back())) continue;
    ready_.push_back(all_.back().get());
    return ready_.back();
  }
  return nullptr;
}

bool Lane::FinishedBefore(Offset offset) {
  while (!finished_before_.empty() && finished_before_.front().end <= offset) finished_before_.pop_front();
  return !finished_before_.empty() && finished_before_.front().first <= offset;
}

/// Goes on with what is known of a message from before. True when its next attempt is not due yet.
bool Lane::Recall(Delivery& delivery) {
  const auto& now = shard_.loop().now();
  const auto offset = delivery.record->offset();
  remembered_.erase(remembered_.begin(), remembered_.lower_bound(offset));  // those do not exist any more
  if (remembered_.empty() || remembered_.begin()->first != offset) return false;
  const auto tried = remembered_.begin()->second;
  remembered_.erase(remembered_.begin());
  const runtime::WallTime first_seen{std::chrono::milliseconds(tried.first_seen_ms)};
  delivery.attempts = tried.attempts;
  // Another machine's clock may be ahead of this one's.
  delivery.could_be_tried = now.steady - std::max(now.wall - first_seen, runtime::Nanoseconds(0));
  if (tried.attempts > 0) delivery.first_attempt = first_seen;
  const auto& config = *subscription_->config;
  const auto longest = Saturated(std::max(config.backoff.max, config.retry_after_max));
  const auto wait = std::min(runtime::WallTime{std::chrono::milliseconds(tried.due_ms)} - now.wall, longest);
  if (wait <= runtime::Nanoseconds(0)) return false;
  delivery.state = Delivery::State::kWaiting;
  WaitUntil(delivery, now.steady + wait);
  return true;
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
  tried.due_ms = delivery.state == Delivery::State::kWaiting ? WholeMilliseconds(now.wall + (delivery.due - now.steady))
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
  std::sort(state.tried.begin(), state.tried.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return state;
}

bool Lane::Exhausted(const Delivery& delivery) const {
  const auto& most = subscription_->config->max_attempts;
  return most && delivery.attempts >= *most;
}

/// How much of its TTL a message has left. Waiting for its first permit costs it nothing: it could not have been tried.
runtime::Nanoseconds Lane::TimeLeft(const Delivery& delivery, const runtime::Now& now) const {
  const auto& config = *subscription_->config;
  const auto ttl = Saturated(config.ttl);
  if (config.ttl_from == config::TtlFrom::kPublished && delivery.record->timestamp_ms() >= 0) {
    const auto age =
        now.wall.time_since_epoch() - Saturated(std::chrono::milliseconds(delivery.record->timestamp_ms()));
    return age > runtime::Nanoseconds(0) ? ttl - age : ttl;
  }
  return delivery.could_be_tried ? ttl - (now.steady - *delivery.could_be_tried) : ttl;
}

void Lane::StartAttempt(const runtime::Now& now, ratelimit::Label label) {
  Delivery& delivery = *ready_.front();
  ready_.pop_front();
  delivery.state = Delivery::State::kInFlight;
  delivery.label = label;
  delivery.permit_of = subscription_->permits->limiter();
  ++delivery.attempts;
  delivery.started = now.wall;
  if (!delivery.could_be_tried) delivery.could_be_tried = now.steady;
  ++in_flight_;
  subscription_->stats(shard_.index()).attempts_by_label.Add(label);
  UpdateGauges();
  Message message;
  message.record = delivery.record;
  message.partition = &stats_->partition;
  message.attempt_number = delivery.attempts;
  message.now = now.wall;
  shard_.sender().Send(subscription_->target, message, delivery);
}

void Lane::FinishAttempt(Delivery& delivery, const Response& response) {
  const auto& now = shard_.loop().now();
  auto& stats = subscription_->stats(shard_.index());
  --in_flight_;
  shard_.ReleaseSlot(*subscription_, /*used=*/true);
  if (response.verdict != Verdict::kNotSent) {
    ObserveDuration(stats, response.elapsed);
    delivery.last_status = response.status;
    delivery.last_error.assign(response.error);
    if (!delivery.first_attempt) delivery.first_attempt = delivery.started;
    delivery.last_attempt = delivery.started;
  }
  switch (response.verdict) {
    case Verdict::kDelivered:
      stats.attempts_delivered.Add(1);
      stats.delivered.Add(1);
      Finish(delivery);
      break;
    case Verdict::kRejected:
      stats.attempts_rejected.Add(1);
      LogFailure(delivery, response, now);
      GiveUp(delivery, DeadLetterReason::kRejected);
      break;
    case Verdict::kRetry:
    case Verdict::kOverload:
      (response.verdict == Verdict::kRetry ? stats.attempts_retryable : stats.attempts_overload).Add(1);
      LogFailure(delivery, response, now);
      Retry(delivery, response, now);
      break;
    case Verdict::kNotSent:
      stats.not_sent.Add(1);
      --delivery.attempts;
      delivery.state = Delivery::State::kReady;
      if (closing_) {
        PutBack(delivery);
      } else {
        MakeReady(delivery);
      }
      break;
  }
  UpdateGauges();
  if (closing_) {
    CheckDrained();
  } else {
    shard_.Wake(*this);
  }
}

void Lane::Retry(Delivery& delivery, const Response& response, const runtime::Now& now) {
  const auto& config = *subscription_->config;
  if (cancelling_) {
    PutBack(delivery);
    return;
  }
  if (Exhausted(delivery)) {
    GiveUp(delivery, DeadLetterReason::kAttempts);
    return;
  }
  auto wait = BackoffFor(config.backoff, delivery.attempts, shard_.Random());
  if (response.retry_after) {
    wait = std::max<runtime::Nanoseconds>(wait, std::min(*response.retry_after, config.retry_after_max));
  }
  if (wait >= TimeLeft(delivery, now)) {
    // No attempt is planned past the deadline.
    GiveUp(delivery, DeadLetterReason::kExpired);
    return;
  }
  delivery.state = Delivery::State::kWaiting;
  delivery.due = now.steady + wait;
  if (closing_) {
    PutBack(delivery);  // the partition's next owner tries again
    return;
  }
  state_changed_ = true;
  WaitUntil(delivery, delivery.due);
}

void Lane::MakeReady(Delivery& delivery) {
  delivery.state = Delivery::State::kReady;
  const auto later = [](Offset order, const Delivery* other) { return order < ReadyOrder(*other); };
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), ReadyOrder(delivery), later), &delivery);
}

void Lane::WaitUntil(Delivery& delivery, runtime::SteadyTime due) {
  delivery.due = due;
  waiting_.push_back(&delivery);
  std::push_heap(waiting_.begin(), waiting_.end(), DueLater);
  if (waiting_.front() == &delivery) ArmRetryTimer();
}

void Lane::ArmRetryTimer() {
  if (waiting_.empty()) return;
  if (!retry_timer_) {
    retry_timer_ = shard_.loop().MakeTimer([this] { OnRetryTimer(); });
  }
  retry_timer_->Arm(waiting_.front()->due);
}

void Lane::OnRetryTimer() {
  const auto& now = shard_.loop().now();
  while (!waiting_.empty() && waiting_.front()->due <= now.steady) {
    std::pop_heap(waiting_.begin(), waiting_.end(), DueLater);
    Delivery* delivery = waiting_.back();
    waiting_.pop_back();
    if (delivery->state == Delivery::State::kDeadLetter) {
      WriteDeadLetter(*delivery);
    } else {
      MakeReady(*delivery);
    }
  }
  ArmRetryTimer();
  UpdateGauges();
  shard_.Wake(*this);
}

void Lane::GiveUp(Delivery& delivery, DeadLetterReason reason) {
  delivery.reason = reason;
  if (!subscription_->config->dead_letters) {
    subscription_->stats(shard_.index()).finished_without_record.Add(1);
    OnDeadLetterDone(delivery, true);
    return;
  }
  delivery.state = Delivery::State::kDeadLetter;
  WriteDeadLetter(delivery);
}

void Lane::WriteDeadLetter(Delivery& delivery) {
  DeadLetter letter;
  letter.record = delivery.record;
  letter.partition = stats_->partition;
  letter.subscription = subscription_->shared->name;
  letter.reason = delivery.reason;
  letter.attempts = delivery.attempts;
  letter.first_attempt = delivery.first_attempt;
  letter.last_attempt = delivery.last_attempt;
  letter.last_status = delivery.last_status;
  letter.last_error = delivery.last_error;
  ++writing_dead_letters_;
  shard_.dead_letters().Write(std::move(letter), [this, &loop = shard_.loop(), d = &delivery,
                                                  alive = std::weak_ptr<bool>(alive_)](bool written) {
    loop.Post([this, d, alive, written] {
      if (alive.expired()) return;  // the lane went first; the message was not finished and comes again
      --writing_dead_letters_;
      OnDeadLetterDone(*d, written);
      UpdateGauges();
      if (closing_) {
        CheckDrained();
      } else {
        shard_.Wake(*this);
      }
    });
  });
}

void Lane::OnDeadLetterDone(Delivery& delivery, bool written) {
  auto& stats = subscription_->stats(shard_.index());
  if (!written) {
    stats.dead_letter_failures.Add(1);
    if (closing_) {
      PutBack(delivery);
    } else {
      WaitUntil(delivery, shard_.loop().now().steady + kDeadLetterRetry);
    }
    return;
  }
  switch (delivery.reason) {
    case DeadLetterReason::kExpired:
      stats.expired.Add(1);
      break;
    case DeadLetterReason::kAttempts:
      stats.exhausted.Add(1);
      break;
    default:
      stats.rejected.Add(1);
      break;
  }
  Finish(delivery);
}

void Lane::Finish(Delivery& delivery) {
  tracker_.Finish(delivery.ticket);
  state_changed_ = true;
  stats_->next.store(tracker_.next(), std::memory_order_relaxed);
  auto removed = Remove(delivery);
  if (spare_.size() < 64) spare_.push_back(std::move(removed));
  if (++finished_since_commit_ >= kCommitEvery) Commit(/*urgent=*/true);
}

std::unique_ptr<Delivery> Lane::Remove(Delivery& delivery) {
  const auto slot = delivery.slot;
  auto removed = std::move(all_[slot]);
  if (slot + 1 != all_.size()) {
    all_[slot] = std::move(all_.back());
    all_[slot]->slot = slot;
  }
  all_.pop_back();
  removed->record.reset();
  removed->attempts = 0;
  removed->could_be_tried.reset();
  removed->first_attempt.reset();
  removed->last_attempt.reset();
  removed->last_status = 0;
  removed->last_error.clear();
  shard_.Touched(partition_);
  return removed;
}

void Lane::Close(bool lost, std::function<void()> drained) {
  closing_ = true;
  lost_ = lost;
  drained_ = std::move(drained);
  if (retry_timer_) retry_timer_->Cancel();
  for (Delivery* delivery : ready_) PutBack(*delivery);
  for (Delivery* delivery : waiting_) PutBack(*delivery);
  ready_.clear();
  waiting_.clear();
  UpdateGauges();
  CheckDrained();
}

void Lane::CancelInFlight() {
  std::vector<Delivery*> flying;
  for (const auto& delivery : all_) {
    if (delivery->state == Delivery::State::kInFlight) flying.push_back(delivery.get());
  }
  cancelling_ = true;
  for (Delivery* delivery : flying) shard_.sender().Cancel(*delivery);
  alive_ = std::make_shared<bool>(true);  // answers to what was being written find nobody
  writing_dead_letters_ = 0;
  while (!all_.empty()) PutBack(*all_.back());
  UpdateGauges();
  CheckDrained();
}

void Lane::CheckDrained() {
  if (in_flight_ > 0 || writing_dead_letters_ > 0 || !drained_) return;
  auto drained = std::move(drained_);
  drained_ = nullptr;
  drained();
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

void Lane::UpdateGauges() {
  auto& stats = subscription_->stats(shard_.index());
  const auto show = [](Tally& gauge, std::uint64_t& shown, std::uint64_t value) {
    if (value == shown) return;
    gauge.Add(value - shown);
    shown = value;
  };
  show(stats.waiting_for_permit, shown_ready_, ready_.size());
  show(stats.retrying, shown_waiting_, waiting_.size());
  show(stats.in_flight, shown_in_flight_, in_flight_);
}

void Lane::LogFailure(const Delivery& delivery, const Response& response, const runtime::Now& now) {
  std::uint64_t suppressed = 0;
  const std::string what =
      response.status != 0 ? "status " + std::to_string(response.status) : std::string(response.error);
  if (!subscription_->shared->NoteError(what, now.wall, &suppressed)) return;
  runtime::Log(runtime::LogLevel::kWarning, "attempt failed",
               {{"subscription", subscription_->shared->name},
                {"topic", stats_->partition.topic},
                {"partition", stats_->partition.partition},
                {"offset", delivery.record->offset()},
                {"attempt", delivery.attempts},
                {"status", response.status},
                {"error", response.error},
                {"not_logged", suppressed}});
}

}  // namespace posthorn::delivery
