#include "worker/kafka/client_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "worker/kafka/client.h"

namespace posthorn::kafka {
namespace {

// What would break a promise when a user set it, and why. `allowed`: the one value that changes nothing.
struct Reserved {
  std::string_view key;
  std::string_view allowed;
  std::string_view reason;
};
constexpr std::array kReserved{
    Reserved{"group.id", "", "the group is the fleet's name; set `fleet`"},
    Reserved{"group.instance.id", "", "comes from `instance` and `membership`"},
    Reserved{"enable.auto.commit", "false", "positions are kept per subscription, after delivery"},
    Reserved{"auto.commit.enable", "false", "positions are kept per subscription, after delivery"},
    Reserved{"enable.auto.offset.store", "false", "positions are kept per subscription, after delivery"},
    Reserved{"auto.offset.reset", "", "set `start` of each subscription"},
    Reserved{"enable.idempotence", "true", "dead letters and states must not be written twice or out of order"},
    Reserved{"acks", "all", "a dead letter counts only when all in-sync replicas have it"},
    Reserved{"request.required.acks", "all", "a dead letter counts only when all in-sync replicas have it"},
    Reserved{"transactional.id", "", "Posthorn names its transactions itself"},
    Reserved{"check.crcs", "true", "broken messages must be noticed"},
    Reserved{"allow.auto.create.topics", "false", "asking for a topic must not create it"},
    Reserved{"group.protocol", "classic", "only the classic protocol is known to keep partitions in order here"},
};

constexpr std::string_view kMask = "********";

std::optional<int> ToInt(const std::string& text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::chrono::milliseconds Setting(const ClientConfig& config, const std::string& key, int otherwise) {
  const auto found = config.settings().find(key);
  if (found == config.settings().end()) return std::chrono::milliseconds(otherwise);
  return std::chrono::milliseconds(ToInt(found->second).value_or(otherwise));
}

}  // namespace

ClientConfig ClientConfig::From(const config::Deployment& deployment, bool embedded) {
  ClientConfig result;
  result.fleet_ = deployment.fleet;
  result.instance_ = deployment.instance;
  result.settings_ = deployment.kafka;
  // The embedded broker parses group.instance.id and then ignores it: a restart would wait for the session's end.
  result.static_member_ =
      !embedded && deployment.membership == config::Membership::kStatic && !deployment.instance.empty();
  result.embedded_ = embedded;
  result.memory_ = deployment.memory;
  return result;
}

ClientConfig ClientConfig::ForControl(const config::Deployment& deployment) {
  ClientConfig result = From(deployment);
  if (!deployment.control_kafka.empty()) result.settings_ = deployment.control_kafka;
  result.static_member_ = false;
  return result;
}

ClientConfig ClientConfig::ForSubscriptions(const config::Deployment& deployment, bool embedded) {
  ClientConfig result = From(deployment, embedded);
  if (!deployment.source.kafka_topic.kafka.empty()) result.settings_ = deployment.source.kafka_topic.kafka;
  result.static_member_ = false;
  return result;
}

std::vector<std::string> ClientConfig::Faults() const {
  std::vector<std::string> faults;
  if (fleet_.empty()) faults.emplace_back("fleet: must be set");
  const auto servers = settings_.find("bootstrap.servers");
  const auto brokers = settings_.find("metadata.broker.list");
  if ((servers == settings_.end() || servers->second.empty()) &&
      (brokers == settings_.end() || brokers->second.empty()))
    faults.emplace_back("kafka.bootstrap.servers: must be set, e.g. localhost:9092");
  for (const Reserved& reserved : kReserved) {
    const auto found = settings_.find(std::string(reserved.key));
    if (found == settings_.end() || (!reserved.allowed.empty() && found->second == reserved.allowed)) continue;
    faults.push_back("kafka." + found->first + ": " + found->second +
                     " cannot be used: " + std::string(reserved.reason));
  }
  // Each refused setting once, though several roles refuse it.
  ConfPtr probe(rd_kafka_conf_new());
  for (const auto& [key, value] : settings_) {
    std::array<char, 512> text{};
    const auto result = rd_kafka_conf_set(probe.get(), key.c_str(), value.c_str(), text.data(), text.size());
    if (result == RD_KAFKA_CONF_OK) continue;
    const std::string shown = IsSecret(key) ? std::string(kMask) : value;
    if (result == RD_KAFKA_CONF_UNKNOWN)
      faults.push_back("kafka." + key + ": no such librdkafka setting");
    else
      faults.push_back("kafka." + key + ": " + shown + " is refused by librdkafka" +
                       (IsSecret(key) ? "" : std::string(": ") + text.data()));
  }
  if (!faults.empty()) return faults;
  if (heartbeat_interval() * 3 > session_timeout())
    faults.push_back("kafka.heartbeat.interval.ms: " + std::to_string(heartbeat_interval().count()) +
                     " must be at most a third of session.timeout.ms (" + std::to_string(session_timeout().count()) +
                     ")");
  if (!faults.empty()) return faults;
  // What depends on several settings at once only shows when a client is made. This opens no connection yet.
  for (const Role role :
       {Role::kMember, Role::kReader, Role::kAdmin, Role::kProducer, Role::kScan, Role::kControlMember,
        Role::kControlReader, Role::kControlProducer, Role::kDocuments, Role::kDocumentWriter}) {
    std::string error;
    ConfPtr conf = BuildConf(*this, role, error);
    if (conf != nullptr) {
      rd_kafka_conf_set(conf.get(), "bootstrap.servers", "", nullptr, 0);
      rd_kafka_conf_set(conf.get(), "metadata.broker.list", "", nullptr, 0);
      rd_kafka_conf_set(conf.get(), "log_level", "0", nullptr, 0);
      if (NewClient(std::move(conf), role, error) != nullptr) continue;
    }
    const std::string fault = "kafka: " + error;
    if (std::find(faults.begin(), faults.end(), fault) == faults.end()) faults.push_back(fault);
  }
  return faults;
}

std::chrono::milliseconds ClientConfig::session_timeout() const { return Setting(*this, "session.timeout.ms", 6000); }

std::chrono::milliseconds ClientConfig::heartbeat_interval() const {
  return Setting(*this, "heartbeat.interval.ms", 500);
}

std::map<std::string, std::string> ClientConfig::MaskedSettings() const {
  auto masked = settings_;
  for (auto& [key, value] : masked)
    if (IsSecret(key)) value = kMask;
  return masked;
}

bool ClientConfig::IsSecret(const std::string& key) {
  static constexpr std::array<std::string_view, 11> kSecrets{"sasl.password",
                                                             "ssl.key.password",
                                                             "ssl.key.pem",
                                                             "ssl_key",
                                                             "ssl.keystore.password",
                                                             "sasl.oauthbearer.client.secret",
                                                             "sasl.oauthbearer.config",
                                                             "sasl.username",
                                                             "ssl.certificate.pem",
                                                             "ssl_certificate",
                                                             "sasl.kerberos.kinit.cmd"};
  return std::find(kSecrets.begin(), kSecrets.end(), key) != kSecrets.end() ||
         key.find("password") != std::string::npos || key.find("secret") != std::string::npos ||
         key.find("token") != std::string::npos;
}

}  // namespace posthorn::kafka
