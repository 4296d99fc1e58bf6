#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/model.h"

namespace posthorn::kafka {

/// How this worker speaks to its Kafka cluster: the deployment's `kafka` map, passed on to librdkafka as it is, plus
/// what Posthorn sets for each kind of client. The user's settings win, except where they would break a promise
/// (automatic commits, another group id): those are faults.
///
/// Threads  Immutable.
class ClientConfig {
 public:
  /// `embedded`: the cluster is librdkafka's own mock (EmbeddedBroker), which knows no admin requests and answers
  /// waiting fetches late.
  static ClientConfig From(const config::Deployment& deployment, bool embedded = false);

  /// For the control topics: the deployment's `control.kafka` where it is given, otherwise its `kafka`.
  static ClientConfig ForControl(const config::Deployment& deployment);

  /// For the subscriptions' topic: its own `kafka` where it is given, otherwise the deployment's.
  static ClientConfig ForSubscriptions(const config::Deployment& deployment, bool embedded = false);

  /// Everything wrong with the settings, one sentence per fault, naming key, value (secrets masked) and rule. Empty:
  /// every client of this room can be made. Opens no connection.
  [[nodiscard]] std::vector<std::string> Faults() const;

  [[nodiscard]] const std::string& fleet() const { return fleet_; }
  [[nodiscard]] const std::string& instance() const { return instance_; }
  [[nodiscard]] const std::map<std::string, std::string>& settings() const { return settings_; }
  [[nodiscard]] bool static_member() const { return static_member_; }
  [[nodiscard]] bool embedded() const { return embedded_; }
  [[nodiscard]] std::uint64_t memory() const { return memory_; }
  /// What the group's coordinator allows a silent member; half of it is the gap after which a worker must ask the
  /// guard.
  [[nodiscard]] std::chrono::milliseconds session_timeout() const;
  [[nodiscard]] std::chrono::milliseconds heartbeat_interval() const;
  /// `kafka` without secrets, for `check` and the log: passwords, keys and tokens read "********".
  [[nodiscard]] std::map<std::string, std::string> MaskedSettings() const;

  /// True for settings whose value must never be shown.
  static bool IsSecret(const std::string& key);

 private:
  ClientConfig() = default;
  std::string fleet_;
  std::string instance_;
  std::map<std::string, std::string> settings_;
  bool static_member_ = false;
  bool embedded_ = false;
  std::uint64_t memory_ = 0;
};

}  // namespace posthorn::kafka
