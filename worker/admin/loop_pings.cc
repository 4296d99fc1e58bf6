#include "worker/admin/loop_pings.h"

#include <atomic>

namespace posthorn::admin {

/// Shared with the posted ping, which may come back after this class is gone, or never.
struct LoopPings::Answer {
  std::atomic<bool> here{true};
};

LoopPings::LoopPings(std::vector<runtime::Loop*> loops) {
  for (auto* loop : loops) asked_.push_back({loop, std::make_shared<Answer>(), std::nullopt});
}

void LoopPings::Ping(runtime::SteadyTime now) {
  const bool stood_still = last_ && now - *last_ > kStandstill;
  last_ = now;
  for (auto& asked : asked_) {
    if (asked.answer->here.load()) {
      asked.answer->here.store(false);
      asked.since = now;
      asked.loop->Post([answer = asked.answer] { answer->here.store(true); });
    } else if (stood_still) {
      asked.since = now;
    }
  }
}

std::vector<LoopPings::Stopped> LoopPings::StoppedLoops(runtime::SteadyTime now) const {
  std::vector<Stopped> stopped;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const auto& asked = asked_[i];
    if (asked.answer->here.load() || !asked.since) continue;
    if (now - *asked.since >= kPatience) stopped.push_back({i, now - *asked.since});
  }
  return stopped;
}

}  // namespace posthorn::admin
