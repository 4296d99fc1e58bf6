#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "worker/fleet/control_node.h"

namespace posthorn::fleet {

/// The thread of a worker's ControlNode: takes what the control topics bring and what time brings.
///
/// Threads  Its own; the On... calls come from those of whoever reads the topics and never wait for it. View from any.
/// Memory   What has come and is not taken yet; in a stall of a second that is a second's records.
class ControlPlane {
 public:
  /// Does not start yet.
  ControlPlane(ControlNode::Parts parts, runtime::Clock& clock);
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  void Start();
  /// Attempts have ended: the permits left go to others. Nothing is done any more afterwards.
  void Leave();

  void OnReady(std::int32_t partitions);
  void OnOwned(std::int32_t partition, bool owned);
  void OnReport(std::int32_t partition, std::string_view bytes);
  void OnLog(std::int32_t partition, std::string_view bytes);
  void OnLogEnd(std::int32_t partition);
  void OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored, runtime::WallTime known);

  [[nodiscard]] ControlView View() const;

 private:
  using Event = std::function<void(ControlNode&, const runtime::Now&)>;
  void Add(Event event);
  void Run();
  void Stop();

  runtime::Clock& clock_;
  mutable std::mutex node_mutex_;
  ControlNode node_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace posthorn::fleet
