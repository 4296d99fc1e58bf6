#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/model.h"
#include "worker/fleet/control_plane.h"

namespace posthorn::cli {

/// The control plane of a worker with adaptive shares, on the control topics of Kafka.
///
/// Threads  One owner; view from any.
class ControlWiring {
 public:
  struct Parts {
    runtime::Clock* clock = nullptr;
    fleet::LimitBook* limits = nullptr;
    ratelimit::Lease::Process process;
    std::function<std::map<std::string, fleet::Demand>(const runtime::Now&)> demand;
    std::function<void()> wake;
  };
  /// Null and `*why` set: cannot run.
  static std::unique_ptr<ControlWiring> Create(const config::Deployment& deployment, const Parts& parts,
                                               std::string* why);
  ~ControlWiring();
  ControlWiring(const ControlWiring&) = delete;
  ControlWiring& operator=(const ControlWiring&) = delete;

  /// What a new process may hold: nothing.
  static ratelimit::Lease::Process NewProcess(const config::Deployment& deployment, runtime::WallTime now);

  void Start();
  /// Attempts have ended: leaves the permits to the others, and its place as a coordinator. View goes on.
  void Stop();
  [[nodiscard]] const fleet::ControlPlane& plane() const;

 private:
  class Impl;
  explicit ControlWiring(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::cli
