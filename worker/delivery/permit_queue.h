#pragma once

#include <deque>
#include <memory>

#include "ratelimit/limiter.h"
#include "worker/delivery/permit_turns.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

class Lane;
class Shard;

/// Lanes of one shard that wait for permits of one limit: first come, first served, one permit each, then to the back.
/// One timer for all of them, which releases as many as the limit admits at that moment; never one per message. So the
/// subscriptions of a limit go in turns here, in proportion to their waiting lanes; the shards do by PermitTurns.
///
/// A queue without a limiter (no max-rate) admits at once.
/// Threads  The shard's.
class PermitQueue {
 public:
  /// `turns`: of the limiter, shared by all shards; null when there is no other shard.
  PermitQueue(Shard& shard, std::shared_ptr<ratelimit::Limiter> limiter, std::shared_ptr<PermitTurns> turns);
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
  [[nodiscard]] bool Yields(const runtime::Now& now);
  void NoteWaiting(bool waits);
  void ArmTimer(const runtime::Now& now, runtime::Nanoseconds wait);

  Shard& shard_;
  std::shared_ptr<ratelimit::Limiter> limiter_;
  std::shared_ptr<PermitTurns> turns_;
  std::deque<Lane*> lanes_;
  bool waits_ = false;                  // refused, and still wants permits
  runtime::SteadyTime opens_{};         // as far as the last refusal said
  runtime::SteadyTime yields_since_{};  // 0: does not
  std::unique_ptr<runtime::Timer> timer_;
  runtime::SteadyTime armed_for_{};
};

}  // namespace posthorn::delivery
