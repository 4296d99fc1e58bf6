#include "worker/fleet/control_plane.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace posthorn::fleet {
namespace {

constexpr auto kLongestWait = std::chrono::seconds(1);  // the wall clock may be set meanwhile

}  // namespace

ControlPlane::ControlPlane(ControlNode::Parts parts, runtime::Clock& clock) : clock_(clock), node_(std::move(parts)) {}

ControlPlane::~ControlPlane() { Stop(); }

void ControlPlane::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ControlPlane::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ControlPlane::Leave() {
  Stop();
  const std::lock_guard lock(node_mutex_);
  node_.Leave(clock_.Read());
}

void ControlPlane::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto events = std::exchange(events_, {});
    lock.unlock();
    runtime::Now now{};
    runtime::WallTime next;
    {
      const std::lock_guard node_lock(node_mutex_);
      now = clock_.Read();
      for (const auto& event : events) event(node_, now);
      next = node_.Tick(now);
    }
    const auto wait = std::clamp<runtime::Nanoseconds>(next - now.wall, runtime::Nanoseconds(0), kLongestWait);
    lock.lock();
    changed_.wait_for(lock, wait, [this] { return stopping_ || !events_.empty(); });
  }
}

void ControlPlane::Add(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
}

void ControlPlane::OnReady(std::int32_t partitions) {
  Add([partitions](ControlNode& node, const runtime::Now&) { node.OnReady(partitions); });
}

void ControlPlane::OnOwned(std::int32_t partition, bool owned) {
  Add([partition, owned](ControlNode& node, const runtime::Now& now) { node.OnOwned(partition, owned, now); });
}

void ControlPlane::OnReport(std::int32_t partition, std::string_view bytes) {
  Add([partition, bytes = std::string(bytes)](ControlNode& node, const runtime::Now& now) {
    node.OnReport(partition, bytes, now);
  });
}

void ControlPlane::OnLog(std::int32_t partition, std::string_view bytes) {
  Add([partition, bytes = std::string(bytes)](ControlNode& node, const runtime::Now& now) {
    node.OnLog(partition, bytes, now);
  });
}

void ControlPlane::OnLogEnd(std::int32_t partition) {
  Add([partition](ControlNode& node, const runtime::Now&) { node.OnLogEnd(partition); });
}

void ControlPlane::OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored,
                            runtime::WallTime known) {
  Add([=](ControlNode& node, const runtime::Now&) { node.OnStored(partition, sent, stored, known); });
}

ControlView ControlPlane::View() const {
  const std::lock_guard lock(node_mutex_);
  return node_.View(clock_.Read());
}

}  // namespace posthorn::fleet
