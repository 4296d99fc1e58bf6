#pragma once

#include <memory>
#include <string>

#include "config/load.h"

namespace posthorn::cli {

/// One worker, wired: builds every part, starts them in order, stops them in the reverse one (worker/README.md tells
/// the order and why). The only composition root.
///
/// Threads  One owner. Fenced and the exit code may be asked from any.
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
  /// `on_fenced` comes from a thread of the worker when a namesake has taken its place: stop soon.
  [[nodiscard]] bool Start(std::string* why, std::function<void()> on_fenced);
  /// Finishes what is in flight, stores offsets, leaves. At most about the shutdown timeout. Idempotent.
  void Stop();

 private:
  struct Parts;
  Options options_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace posthorn::cli
