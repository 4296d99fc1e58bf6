#pragma once

#include <deque>
#include <memory>

#include "worker/delivery/endpoint_health.h"
#include "worker/delivery/sender.h"
#include "worker/runtime/loop.h"

namespace posthorn::delivery {

class Lane;
class Shard;
struct SubscriptionOnShard;

/// The endpoint's health where one shard asks for permits: whoever must not start now waits here, out of the way of the
/// others under the same limit. First come, first served; one timer, which lets as many go as may start.
///
/// Threads  The shard's.
/// Cost     One relaxed load per attempt and per answer while the endpoint is healthy.
class HealthGate {
 public:
  HealthGate(Shard& shard, SubscriptionOnShard& subscription) : shard_(shard), subscription_(subscription) {}
  HealthGate(const HealthGate&) = delete;
  HealthGate& operator=(const HealthGate&) = delete;

  /// May an attempt of `lane` start now? Otherwise the lane waits here and is woken.
  [[nodiscard]] bool Pass(Lane& lane, const runtime::Now& now);
  /// What passed did not start after all.
  void GiveBack(const runtime::Now& now);
  /// What an attempt's end says about the endpoint.
  void Note(const Response& response, const runtime::Now& now);
  /// Several times a second: messages that expire while they are held back are finished, and another shard may have
  /// seen the endpoint get well.
  void Tick(const runtime::Now& now);
  void Remove(Lane& lane);

 private:
  void Serve(const runtime::Now& now);
  void ArmTimer(runtime::SteadyTime at, const runtime::Now& now);
  void Log(const EndpointHealth::View& view, const runtime::Now& now) const;
  [[nodiscard]] EndpointHealth::Rates Rates(const runtime::Now& now) const;

  Shard& shard_;
  SubscriptionOnShard& subscription_;
  std::deque<Lane*> held_back_;
  std::unique_ptr<runtime::Timer> timer_;
  runtime::SteadyTime armed_for_{};
};

}  // namespace posthorn::delivery
