#pragma once

#include <memory>
#include <string>

#include "config/load.h"

namespace posthorn::cli {

/// One worker, wired: builds every part, starts them in order, stops them in the reverse one (worker/README.md tells
/// the order and why). The only composition root.
///
/// Threads  One owner.
class WorkerProcess {
 public:
  struct Options {
    config::Deployment deployment;
    config::Capabilities capabilities;
    bool embedded_broker = false;  // the cluster is librdkafka's own: no admin requests, slow fetches
  };
  explicit WorkerProcess(Options options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// False: cannot run, `*why` names every reason. Nothing that is merely away (broker, source, endpoint) is a reason.
  /// Once another process has taken the instance name everything is given up and nothing taken until nobody has it any
  /// more: the process stays, not ready. Ending by itself it would be started anew by whoever supervises it, and fence
  /// the other one in turn.
  [[nodiscard]] bool Start(std::string* why);
  /// Finishes what is in flight, stores offsets, gives the partitions back. At most about the shutdown timeout.
  /// `for_good`: nobody comes back under this instance name soon, so a static member leaves the group too. Idempotent.
  void Stop(bool for_good = false);

 private:
  struct Parts;
  Options options_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace posthorn::cli
