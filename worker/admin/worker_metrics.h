#pragma once

#include <memory>
#include <string>

#include "worker/admin/permit_meter.h"
#include "worker/admin/worker_view.h"

namespace posthorn::admin {

/// Every metric of a worker, read from its parts when asked. Nothing is copied or counted twice between scrapes.
///
/// Threads  One at a time.
/// Cost     A scrape with 1 000 subscriptions: about 7 ms and, while it lasts, 8 MB.
class WorkerMetrics {
 public:
  explicit WorkerMetrics(std::shared_ptr<const WorkerView> view);

  /// At least once a second, see PermitMeter.
  void Tick();
  /// The text of /metrics.
  [[nodiscard]] std::string Scrape();

 private:
  std::shared_ptr<const WorkerView> view_;
  PermitMeter permits_;
};

}  // namespace posthorn::admin
