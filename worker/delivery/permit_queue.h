#pragma once

#include <deque>
#include <memory>

#include "ratelimit/limiter.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

class Lane;
class Shard;

/// Lanes of one shard that wait for permits of one limit: first come, first served, one permit each, then to the back.
/// One timer for all of them, which releases as many as the limit admits at that moment; never one per message.
///
/// A queue without a limiter (no max-rate) admits at once.
/// Threads  The shard's.
class PermitQueue {
 public:
  PermitQueue(Shard& shard, std::shared_ptr<ratelimit::Limiter> limiter);
  ~PermitQueue();
  PermitQueue(const PermitQueue&) = delete;
  PermitQueue& operator=(const PermitQueue&) = delete;

  void Add(Lane& lane);
  void Remove(Lane& lane);
  /// Starts every attempt that may start now; arms the timer for the rest.
  void Pump(const runtime::Now& now);
  [[nodiscard]] ratelimit::Limiter* limiter() const { return limiter_.get(); }
  [[nodiscard]] bool empty() const { return lanes_.empty(); }

  bool scheduled = false;  // stands in the shard's list of queues to pump; written by Shard only

 private:
  void ArmTimer(const runtime::Now& now, runtime::Nanoseconds wait);

  Shard& shard_;
  std::shared_ptr<ratelimit::Limiter> limiter_;
  std::deque<Lane*> lanes_;
  std::unique_ptr<runtime::Timer> timer_;
  runtime::SteadyTime armed_for_{};
};

}  // namespace posthorn::delivery
