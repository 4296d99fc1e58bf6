#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/admin/admin_server.h"

namespace posthorn::config {
class ConfigWatch;
}
namespace posthorn::delivery {
class Dispatcher;
struct MemoryBudget;
}  // namespace posthorn::delivery
namespace posthorn::fleet {
class ControlPlane;
class LimitBook;
}  // namespace posthorn::fleet
namespace posthorn::kafka {
class KafkaDeadLetterSink;
class KafkaOffsetStore;
class KafkaRetrySink;
class Membership;
}  // namespace posthorn::kafka
namespace posthorn::runtime {
class Clock;
class Loop;
}  // namespace posthorn::runtime

namespace posthorn::admin {

struct WorkerView;

/// The parts of a worker the admin address tells about. All of them outlive the server, and are needed but where
/// null is said to mean something.
struct AdminSources {
  std::string instance;
  std::optional<std::uint32_t> slot;
  runtime::Clock* clock = nullptr;
  std::vector<runtime::Loop*> loops;  // one per shard
  const delivery::Dispatcher* dispatcher = nullptr;
  const fleet::LimitBook* limits = nullptr;
  const fleet::ControlPlane* control = nullptr;  // null: static shares
  const config::ConfigWatch* watch = nullptr;
  const kafka::Membership* membership = nullptr;
  const kafka::KafkaOffsetStore* offsets = nullptr;
  const kafka::KafkaDeadLetterSink* dead_letters = nullptr;
  const kafka::KafkaRetrySink* retry = nullptr;
  std::shared_ptr<const delivery::MemoryBudget> memory;
};

/// The admin server of a worker with every page on it, not started yet.
[[nodiscard]] std::unique_ptr<AdminServer> MakeAdminServer(const std::string& address, AdminSources sources);

/// Puts every page on `server`: /livez /readyz /metrics /subscriptions /config /fleet /debug/labels and the index.
void AddPages(AdminServer& server, std::shared_ptr<const WorkerView> view);

}  // namespace posthorn::admin
