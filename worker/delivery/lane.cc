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
           Partition& partition, Offset next, CommitState known)
    : shard_(shard),
      subscription_(std::move(subscription)),
      stats_(std::move(stats)),
      partition_(partition),
      next_to_take_(next),
      ordering_(subscription_->config->ordering),
      parked_keys_(known.parked),
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
  if (ordering_ != subscription_->config->ordering) Reorder();
  for (;;) {
    if (ready_.empty() && Take() == nullptr) {
      UpdateGauges();
      return nullptr;
    }
    Delivery* head = ready_.front();
    const bool too_large = head->record->memory() > partition_.LargestMessage();
    const bool exhausted = Exhausted(*head);
    if (!too_large && !exhausted && TimeLeft(*head, now) > runtime::Nanoseconds(0)) {
      UpdateGauges();
      return head;
    }
    ready_.pop_front();
    GiveUp(*head, too_large   ? DeadLetterReason::kTooLarge
                  : exhausted ? DeadLetterReason::kAttempts
                              : DeadLetterReason::kExpired);
  }
}

Delivery* Lane::Take() {
  if (ring_ == nullptr) return nullptr;
  while (MayTake()) {
    const RecordPtr* record = ring_->At(cursor_);
    if (record == nullptr) break;
    ++cursor_;
    shard_.Touched(partition_);
    const auto offset = (*record)->offset();
    if (offset < next_to_take_) continue;  // read again after a rewind for another lane
    if (OfOthers(**record)) {
      SetNextToTake(offset + 1);
      tracker_.Skip(offset);
      stats_->next.store(tracker_.next(), std::memory_order_relaxed);
      continue;
    }
    if (const auto end = FinishedBefore(offset)) {
      tracker_.SkipFinished({offset, *end});
      SetNextToTake(*end);
      stats_->next.store(tracker_.next(), std::memory_order_relaxed);
      continue;
    }
    SetNextToTake(offset + 1);
    const auto ticket = tracker_.Start(offset);
    std::unique_ptr<Delivery> delivery;
    if (spare_.empty()) {
      delivery = std::make_unique<Delivery>(*this);
    } else {
      delivery = std::move(spare_.back());
      spare_.pop_back();
    }
    delivery->record = *record;
    delivery->ticket = ticket;
    delivery->slot = all_.size();
    delivery->order_key = OrderKey(**record);
    all_.push_back(std::move(delivery));
    held_bytes_ += (*record)->memory();
    Recall(*all_.back());
    Admit(*all_.back());
    if (!ready_.empty()) return ready_.front();
  }
  return nullptr;
}

void Lane::Attach(const PartitionRing& ring, PartitionRing::Sequence cursor, LaneReader reader) {
  ring_ = &ring;
  cursor_ = cursor;
  ShowReader(reader);
}

void Lane::Detach() {
  ring_ = nullptr;
  ShowReader(LaneReader::kShared);
}

void Lane::ChargeHeldTo(const std::shared_ptr<MemoryAccount>& account) const {
  for (const auto& delivery : all_) delivery->record->ChargeTo(account);
}

bool Lane::Holds(std::size_t messages, std::size_t part) const {
  return tracker_.unfinished_span() < messages &&
         (held_bytes_ == 0 || held_bytes_ < partition_.MostHeldByLane() / part);
}

bool Lane::HasRoom() const { return Holds(shard_.max_unfinished(), 1); }

bool Lane::IsHalfEmpty() const { return Holds(shard_.max_unfinished() / 2, 2); }

bool Lane::MayTake() const { return HasRoom() && (ordering_ != config::Ordering::kPartition || all_.empty()); }

std::optional<KeyOrder::Key> Lane::OrderKey(const Record& record) const {
  switch (ordering_) {
    case config::Ordering::kNone:
      break;
    case config::Ordering::kKey:
      if (record.key()) return KeyOrder::Of(*record.key());
      break;
    case config::Ordering::kPartition:
      return 0;  // all the same
  }
  return std::nullopt;
}

/// A message that was not tried here yet: it goes as soon as its turn, its time and a permit have come.
void Lane::Admit(Delivery& delivery) {
  delivery.state = Delivery::State::kHeld;
  auto* next = delivery.order_key ? order_.Enter(delivery) : &delivery;
  if (next != nullptr) Queue(*next);
}

/// After an attempt that did not finish it. Its turn has passed to an older one of its key when the order has changed.
void Lane::AdmitAgain(Delivery& delivery) {
  delivery.state = Delivery::State::kHeld;
  auto* next = delivery.order_key ? order_.Again(delivery) : &delivery;
  if (next != nullptr) Queue(*next);
}

/// The configured order has changed. What cannot be called back stays where it is; the rest takes its turn anew.
void Lane::Reorder() {
  ordering_ = subscription_->config->ordering;
  order_.Clear();
  ready_.clear();
  std::vector<Delivery*> idle;
  for (const auto& delivery : all_) {
    delivery->order_key = OrderKey(*delivery->record);
    if (delivery->state != Delivery::State::kInFlight && delivery->state != Delivery::State::kDeadLetter &&
        delivery->state != Delivery::State::kParking) {
      idle.push_back(delivery.get());
    } else if (delivery->order_key) {
      order_.NoteOut(*delivery);
    }
  }
  std::erase_if(waiting_, [](const Delivery* delivery) { return delivery->state != Delivery::State::kDeadLetter; });
  MakeHeap();
  std::sort(idle.begin(), idle.end(),
            [](const auto* a, const auto* b) { return a->record->offset() < b->record->offset(); });
  for (Delivery* delivery : idle) Admit(*delivery);
  ArmRetryTimer();
}

/// Nothing but its time and a permit is waited for, unless it must follow its key into the retry topic.
void Lane::Queue(Delivery& delivery) {
  if (MustFollow(delivery)) {
    Park(delivery);
  } else if (delivery.due > shard_.loop().now().steady) {
    delivery.state = Delivery::State::kWaiting;
    WaitUntil(delivery, delivery.due);
  } else {
    MakeReady(delivery);
  }
}

bool Lane::Exhausted(const Delivery& delivery) const {
  const auto& most = subscription_->config->max_attempts;
  return most && delivery.attempts >= *most;
}

/// How much of its TTL a message has left. Waiting for its first permit costs it nothing: it could not have been tried.
runtime::Nanoseconds Lane::TimeLeft(const Delivery& delivery, const runtime::Now& now) const {
  const auto& config = *subscription_->config;
  const auto ttl = Saturated(config.ttl);
  const bool fresh = delivery.record->retry() != nullptr && delivery.record->retry()->fresh_ttl;
  if (config.ttl_from == config::TtlFrom::kPublished && delivery.record->timestamp_ms() >= 0 && !fresh) {
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
  if (!cancelling_) subscription_->health->Note(response, now);
  switch (response.verdict) {
    case Verdict::kDelivered:
      stats.attempts_delivered.Add(1);
      stats.delivered.Add(1);
      Finish(delivery, /*through=*/true);
      break;
    case Verdict::kRejected:
      stats.attempts_rejected.Add(1);
      LogFailure(delivery, response, now);
      GiveUp(delivery, response.status == 410 ? DeadLetterReason::kGone : DeadLetterReason::kRejected);
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
        AdmitAgain(delivery);
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
  delivery.due = now.steady + wait;
  if (closing_) {
    delivery.state = Delivery::State::kWaiting;
    PutBack(delivery);  // the partition's next owner tries again
    return;
  }
  state_changed_ = true;
  AdmitAgain(delivery);
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

void Lane::MakeHeap() { std::make_heap(waiting_.begin(), waiting_.end(), DueLater); }

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
      Queue(*delivery);
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
  letter.partition = delivery.record->source(stats_->partition);
  letter.subscription = subscription_->shared->name;
  letter.reason = delivery.reason;
  letter.attempts = delivery.attempts;
  letter.first_attempt = delivery.first_attempt;
  letter.last_attempt = delivery.last_attempt;
  letter.last_status = delivery.last_status;
  letter.last_error = delivery.last_error;
  // How many attempts there were travels with the position, how they ended does not.
  if (letter.attempts > 0 && letter.last_status == 0 && letter.last_error.empty())
    letter.last_error = "not known: attempted before the partition came to this worker";
  letter.without_value = delivery.reason == DeadLetterReason::kTooLarge;
  ++writing_;
  shard_.dead_letters().Write(std::move(letter), [this, &loop = shard_.loop(), d = &delivery,
                                                  alive = std::weak_ptr<bool>(alive_)](bool written) {
    loop.Post([this, d, alive, written] {
      if (alive.expired()) return;  // the lane went first; the message was not finished and comes again
      --writing_;
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
  Finish(delivery, delivery.reason == DeadLetterReason::kRejected);
}

/// `through`: the endpoint has dealt with it.
void Lane::Finish(Delivery& delivery, bool through) {
  tracker_.Finish(delivery.ticket, through);
  state_changed_ = true;
  stats_->next.store(tracker_.next(), std::memory_order_relaxed);
  Delivery* next = delivery.order_key && !closing_ ? order_.Leave(delivery) : nullptr;
  auto removed = Remove(delivery);
  if (next != nullptr) Queue(*next);
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
  held_bytes_ -= removed->record->memory();
  removed->record.reset();
  removed->attempts = 0;
  removed->due = {};
  removed->order_key.reset();
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
  if (held_back) subscription_->health->Remove(*this);
  std::vector<Delivery*> idle = waiting_;  // dead letters that could not be written among them
  for (const auto& delivery : all_) {
    if (delivery->state == Delivery::State::kHeld || delivery->state == Delivery::State::kReady) {
      idle.push_back(delivery.get());
    }
  }
  for (Delivery* delivery : idle) PutBack(*delivery);
  order_.Clear();
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
  writing_ = 0;
  while (!all_.empty()) PutBack(*all_.back());
  UpdateGauges();
  CheckDrained();
}

void Lane::CheckDrained() {
  if (in_flight_ > 0 || writing_ > 0 || !drained_) return;
  auto drained = std::move(drained_);
  drained_ = nullptr;
  drained();
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
  if (partition_.retry) show(stats.parked_here, shown_parked_, all_.size());
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
