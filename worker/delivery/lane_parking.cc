// What would stop a lane goes on in the fleet's retry topic.
#include <algorithm>

#include "worker/delivery/lane.h"
#include "worker/delivery/shard.h"

namespace posthorn::delivery {
namespace {

constexpr auto kParkingRetry = std::chrono::seconds(1);

}  // namespace

bool Lane::OfOthers(const Record& record) const {
  return partition_.retry && (record.retry() == nullptr || record.retry()->subscription != subscription_->shared->name);
}

/// Its key has messages in the retry topic that it must not overtake.
bool Lane::MustFollow(const Delivery& delivery) const {
  return !parked_keys_.empty() && ordering_ != config::Ordering::kNone && delivery.record->key() &&
         parked_keys_.Holds(*delivery.record->key());
}

void Lane::ParkStuck() {
  if (closing_ || subscription_->stopped || ordering_ == config::Ordering::kPartition) return;
  if (shard_.retry() == nullptr) return;
  // From the retry topic a message only goes to its end when nothing of its key may come in between meanwhile.
  if (partition_.retry && ordering_ == config::Ordering::kKey) return;
  std::vector<Delivery*> failing;
  for (const auto& delivery : all_) {
    if (delivery->attempts > (delivery->state == Delivery::State::kInFlight ? 1U : 0U)) {
      failing.push_back(delivery.get());
    }
  }
  if (failing.empty()) return;
  std::sort(failing.begin(), failing.end(), [](const auto* a, const auto* b) { return a->ticket < b->ticket; });
  // Whether it is the message or the endpoint: as many behind it as are failing have got through.
  std::size_t through = 0;
  auto stuck = failing.end();
  tracker_.FromNewest([&](OffsetTracker::Ticket ticket, bool got_through) {
    if (stuck == failing.begin()) return;
    if (got_through) {
      ++through;
    } else if ((*std::prev(stuck))->ticket == ticket && through < failing.size()) {
      --stuck;
    }
  });
  failing.erase(stuck, failing.end());
  std::erase_if(failing, [](const Delivery* delivery) {
    return delivery->state != Delivery::State::kWaiting && delivery->state != Delivery::State::kReady;
  });
  if (failing.empty()) return;
  if (shard_.retry_partitions() == 0) {
    shard_.retry()->Prepare();  // soon
    return;
  }
  for (Delivery* delivery : failing) delivery->state = Delivery::State::kParking;
  const auto parking = [](const Delivery* delivery) { return delivery->state == Delivery::State::kParking; };
  std::erase_if(ready_, parking);
  std::erase_if(waiting_, parking);
  MakeHeap();
  for (Delivery* delivery : failing) Park(*delivery);
  UpdateGauges();
}

void Lane::Park(Delivery& delivery) {
  delivery.state = Delivery::State::kParking;
  if (shard_.retry() == nullptr || shard_.retry_partitions() == 0) {
    WaitToPark(delivery);
    return;
  }
  const auto& record = *delivery.record;
  RetryState state;
  if (record.retry() != nullptr) state = *record.retry();
  state.subscription = subscription_->shared->name;
  state.source = record.source(stats_->partition);
  state.source_offset = record.source_offset();
  state.source_timestamp_ms = record.timestamp_ms();
  state.attempts = delivery.attempts;
  if (delivery.could_be_tried) {
    const auto known = Known(delivery);
    state.first_seen_ms = known.first_seen_ms;
    state.due_ms = known.due_ms;
  }
  ++writing_;
  shard_.retry()->Write(
      RetryPartition(state.subscription, shard_.retry_partitions()), delivery.record, state,
      [this, &loop = shard_.loop(), d = &delivery, alive = std::weak_ptr<bool>(alive_)](std::optional<Offset> at) {
        loop.Post([this, d, alive, at] {
          if (alive.expired()) return;  // the lane went first; the message was not finished and comes again
          --writing_;
          OnParked(*d, at);
          UpdateGauges();
          if (closing_) {
            CheckDrained();
          } else {
            shard_.Wake(*this);
          }
        });
      });
}

void Lane::OnParked(Delivery& delivery, std::optional<Offset> at) {
  auto& stats = subscription_->stats(shard_.index());
  if (!at) {
    stats.parking_failures.Add(1);
    WaitToPark(delivery);
    return;
  }
  stats.parked.Add(1);
  if (delivery.order_key && delivery.record->key() && !partition_.retry) parked_keys_.Add(*delivery.record->key(), *at);
  Finish(delivery, /*through=*/false);
}

/// Until it is due it may be parked again, or its key be released.
void Lane::WaitToPark(Delivery& delivery) {
  delivery.state = Delivery::State::kWaiting;
  if (closing_) {
    PutBack(delivery);
  } else {
    WaitUntil(delivery, std::max(delivery.due, shard_.loop().now().steady + kParkingRetry));
  }
}

void Lane::Release(const RetryProgress& progress) {
  if (parked_keys_.Release(progress)) state_changed_ = true;
}

}  // namespace posthorn::delivery
