#include "worker/kafka/client.h"

#include <syslog.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "config/sources/errand_thread.h"
#include "worker/kafka/abandoned.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

// Half of the worker's memory may lie unread in librdkafka's queues; the limits are per partition, and nobody knows yet
// how many partitions there will be, so it is shared out as if there were 32.
constexpr std::uint64_t kAssumedPartitions = 32;

void LogLine(const rd_kafka_t* client, int level, const char* facility, const char* text) noexcept {
  const auto severity = level <= 3   ? runtime::LogLevel::kError
                        : level <= 4 ? runtime::LogLevel::kWarning
                        : level <= 6 ? runtime::LogLevel::kInfo
                                     : runtime::LogLevel::kDebug;
  try {
    runtime::Log(severity, "librdkafka",
                 {{"client", client != nullptr ? rd_kafka_name(client) : ""}, {"facility", facility}, {"text", text}});
  } catch (...) {
    // A C caller: an allocation that failed loses a log line, nothing else.
  }
}

/// For Role::kDocumentWriter: what becomes of a transaction its calls tell, and who is overtaken begins anew.
void WriterLogLine(const rd_kafka_t* client, int level, const char* facility, const char* text) noexcept {
  static constexpr std::array<std::string_view, 5> kOfTransactions{"ADDPARTS", "ERROR", "FATAL", "GETPID", "TXNERR"};
  LogLine(client, std::ranges::count(kOfTransactions, facility) > 0 ? LOG_DEBUG : level, facility, text);
}

class Setter {
 public:
  Setter(rd_kafka_conf_t* conf, std::string& error) : conf_(conf), error_(error) {}
  bool Set(const std::string& key, const std::string& value) {
    std::array<char, 512> text{};
    if (rd_kafka_conf_set(conf_, key.c_str(), value.c_str(), text.data(), text.size()) == RD_KAFKA_CONF_OK) return true;
    error_ = ClientConfig::IsSecret(key) ? key + ": refused by librdkafka" : std::string(text.data());
    return false;
  }
  /// For settings that this librdkafka may not know.
  void Try(const std::string& key, const std::string& value) {
    rd_kafka_conf_set(conf_, key.c_str(), value.c_str(), nullptr, 0);
  }

 private:
  rd_kafka_conf_t* conf_;
  std::string& error_;
};

using Pairs = std::initializer_list<std::pair<const char*, std::string>>;

// Settings that make no sense for the other kind of client; librdkafka would log a warning for each.
bool IsFor(Role role, const std::string& key) {
  static constexpr std::array<std::string_view, 24> kConsumerOnly{"partition.assignment.strategy",
                                                                  "session.timeout.ms",
                                                                  "heartbeat.interval.ms",
                                                                  "max.poll.interval.ms",
                                                                  "queued.min.messages",
                                                                  "queued.max.messages.kbytes",
                                                                  "fetch.wait.max.ms",
                                                                  "fetch.queue.backoff.ms",
                                                                  "fetch.message.max.bytes",
                                                                  "max.partition.fetch.bytes",
                                                                  "fetch.max.bytes",
                                                                  "fetch.min.bytes",
                                                                  "fetch.error.backoff.ms",
                                                                  "isolation.level",
                                                                  "check.crcs",
                                                                  "client.rack",
                                                                  "group.protocol.type",
                                                                  "coordinator.query.interval.ms",
                                                                  "enable.auto.commit",
                                                                  "enable.auto.offset.store",
                                                                  "auto.commit.interval.ms",
                                                                  "allow.auto.create.topics",
                                                                  "group.protocol",
                                                                  "group.remote.assignor"};
  static constexpr std::array<std::string_view, 22> kProducerOnly{"enable.idempotence",
                                                                  "acks",
                                                                  "request.required.acks",
                                                                  "linger.ms",
                                                                  "queue.buffering.max.ms",
                                                                  "queue.buffering.max.messages",
                                                                  "queue.buffering.max.kbytes",
                                                                  "batch.size",
                                                                  "batch.num.messages",
                                                                  "compression.codec",
                                                                  "compression.type",
                                                                  "compression.level",
                                                                  "message.timeout.ms",
                                                                  "delivery.timeout.ms",
                                                                  "request.timeout.ms",
                                                                  "retries",
                                                                  "message.send.max.retries",
                                                                  "partitioner",
                                                                  "sticky.partitioning.linger.ms",
                                                                  "max.in.flight.requests.per.connection",
                                                                  "max.in.flight",
                                                                  "delivery.report.only.error"};
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), key) != list.end(); };
  switch (role) {
    case Role::kMember:
    case Role::kReader:
    case Role::kScan:
    case Role::kControlMember:
    case Role::kControlReader:
    case Role::kDocuments:
      return !in(kProducerOnly);
    case Role::kProducer:
    case Role::kControlProducer:
    case Role::kDocumentWriter:
      return !in(kConsumerOnly);
    case Role::kAdmin:
      return !in(kProducerOnly) && !in(kConsumerOnly);
  }
  return true;
}

// What suits messages does not suit leases, which are over in seconds.
bool IsForMessagesOnly(Role role, const std::string& key) {
  // From a replica near by reports and grants come up to half a second late.
  return (role == Role::kControlMember || role == Role::kControlReader) && key == "client.rack";
}

}  // namespace

const char* ToString(Role role) {
  switch (role) {
    case Role::kMember:
      return "member";
    case Role::kReader:
      return "reader";
    case Role::kAdmin:
      return "admin";
    case Role::kProducer:
      return "producer";
    case Role::kScan:
      return "scan";
    case Role::kControlMember:
      return "control member";
    case Role::kControlReader:
      return "control reader";
    case Role::kControlProducer:
      return "control producer";
    case Role::kDocuments:
      return "documents";
    case Role::kDocumentWriter:
      return "document writer";
  }
  return "";
}

ConfPtr BuildConf(const ClientConfig& config, Role role, std::string& error) {
  ConfPtr conf(rd_kafka_conf_new());
  Setter setter(conf.get(), error);
  const auto set_all = [&](Pairs pairs) {
    return std::all_of(pairs.begin(), pairs.end(),
                       [&](const auto& pair) { return setter.Set(pair.first, pair.second); });
  };
  const std::string who = config.instance().empty() ? config.fleet() : config.instance();

  // First what a user may set otherwise.
  bool good = set_all({{"client.id", "posthorn-" + who},
                       {"log.connection.close", "false"},
                       {"reconnect.backoff.ms", "100"},
                       {"reconnect.backoff.max.ms", "2000"},
                       {"socket.keepalive.enable", "true"},
                       {"topic.metadata.refresh.interval.ms", "10000"}});
  if (role == Role::kMember) {
    const std::uint64_t kib = std::clamp<std::uint64_t>(config.memory() / 2 / kAssumedPartitions / 1024, 1024, 65'536);
    const std::uint64_t messages = std::clamp<std::uint64_t>(kib * 1024 / 256, 4096, 100'000);
    good = good && set_all({{"partition.assignment.strategy", "cooperative-sticky"},
                            {"session.timeout.ms", "6000"},
                            {"heartbeat.interval.ms", "500"},
                            {"queued.max.messages.kbytes", std::to_string(kib)},
                            {"queued.min.messages", std::to_string(messages)},
                            {"fetch.wait.max.ms", config.embedded() ? "10" : "100"},
                            {"fetch.error.backoff.ms", "100"}});
    setter.Try("fetch.queue.backoff.ms", "10");  // from 2.2 on; before, ClusterWatch kicks the fetcher
  }
  if (role == Role::kReader) good = good && set_all({{"fetch.wait.max.ms", config.embedded() ? "10" : "100"}});
  if (role == Role::kProducer)
    // The brokers judge the size: what a topic took must be writable to the dead letters too.
    good = good && set_all({{"linger.ms", "5"}, {"message.timeout.ms", "30000"}, {"message.max.bytes", "1000000000"}});
  if (role == Role::kScan)
    good = good && set_all({{"queued.max.messages.kbytes", "8192"}, {"fetch.wait.max.ms", "10"}});
  if (role == Role::kDocuments)
    // How soon the end of the log shows, which makes a revision of what was read.
    good =
        good && set_all({{"fetch.wait.max.ms", config.embedded() ? "10" : "100"}, {"fetch.error.backoff.ms", "100"}});
  for (const auto& [key, value] : config.settings())
    if (IsFor(role, key) && !IsForMessagesOnly(role, key)) good = good && setter.Set(key, value);

  // Then what nobody may.
  if (role == Role::kMember) {
    good = good && set_all({{"group.id", config.fleet()},
                            {"enable.auto.commit", "false"},
                            {"enable.auto.offset.store", "false"},
                            {"enable.partition.eof", "false"},
                            // Only used when a position is gone; the feed tells how many messages are lost.
                            {"auto.offset.reset", "earliest"}});
    if (config.static_member()) good = good && setter.Set("group.instance.id", config.instance());
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR);
  }
  if (role == Role::kReader) {
    // Beside the data consumer, for as many partitions, several times over: an eighth of what that one may hold.
    const std::uint64_t kib = std::clamp<std::uint64_t>(config.memory() / 2 / 8 / kAssumedPartitions / 1024, 64, 1024);
    const std::uint64_t messages = std::clamp<std::uint64_t>(kib * 1024 / 256, 1024, 100'000);
    good = good && set_all({{"enable.auto.commit", "false"},
                            {"enable.auto.offset.store", "false"},
                            {"enable.partition.eof", "false"},
                            {"auto.offset.reset", "earliest"},
                            {"queued.max.messages.kbytes", std::to_string(kib)},
                            {"queued.min.messages", std::to_string(messages)},
                            {"fetch.message.max.bytes", std::to_string(kib * 1024)}});
    setter.Try("fetch.queue.backoff.ms", "10");
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_ERROR);
  }
  if (role == Role::kAdmin) {
    // It joins nothing, but without a group librdkafka (2.0.2 to 2.8.0 at least) crashes when ListConsumerGroupOffsets
    // is answered NOT_COORDINATOR, as it is while brokers come back: it asks the coordinator of a group it has not.
    good = good && set_all({{"group.id", config.fleet()}, {"enable.auto.commit", "false"}});
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_ERROR);
  }
  if (role == Role::kScan) {
    // The group is a name here: partitions are assigned by hand, and nothing is committed.
    good = good && set_all({{"group.id", config.fleet()},
                            {"enable.auto.commit", "false"},
                            {"enable.auto.offset.store", "false"},
                            {"enable.partition.eof", "true"},
                            {"auto.offset.reset", "earliest"},
                            {"isolation.level", "read_committed"}});
  }
  if (role == Role::kDocuments) {
    good = good && set_all({{"group.id", config.fleet()},
                            {"enable.auto.commit", "false"},
                            {"enable.auto.offset.store", "false"},
                            {"enable.partition.eof", "true"},
                            // A position that is gone means another log, which is read from its beginning.
                            {"auto.offset.reset", "error"},
                            {"isolation.level", "read_committed"}});
    setter.Try("fetch.queue.backoff.ms", "10");
  }
  if (role == Role::kControlMember || role == Role::kControlReader) {
    good = good && set_all({{"group.id", config.fleet() + ".@control"},
                            {"enable.auto.commit", "false"},
                            {"enable.auto.offset.store", "false"},
                            {"fetch.min.bytes", "1"},
                            {"fetch.wait.max.ms", "100"},
                            {"fetch.error.backoff.ms", "100"}});
    if (role == Role::kControlMember) {
      // Whoever takes over has until the leases end, whatever the sessions of the data consumers are.
      good = good && set_all({{"partition.assignment.strategy", "cooperative-sticky"},
                              {"session.timeout.ms", "6000"},
                              {"heartbeat.interval.ms", "500"},
                              {"max.poll.interval.ms", "300000"},
                              {"enable.partition.eof", "false"},
                              {"auto.offset.reset", "latest"}});
      rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR);
    } else {
      good = good && set_all({{"enable.partition.eof", "true"}, {"auto.offset.reset", "earliest"}});
    }
    setter.Try("fetch.queue.backoff.ms", "10");
  }
  if (role == Role::kControlProducer)
    good = good && set_all({{"linger.ms", "0"},
                            {"message.timeout.ms", "5000"},
                            {"message.max.bytes", std::to_string(kControlRecordBytes)}});
  if (role == Role::kProducer || role == Role::kControlProducer) {
    good = good && set_all({{"enable.idempotence", "true"}});
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
  }
  if (role == Role::kDocumentWriter) {
    good = good && set_all({{"enable.idempotence", "true"},
                            {"linger.ms", "0"},
                            {"message.max.bytes", "1000000000"},
                            {"message.timeout.ms", "10000"},
                            // What a writer that died leaves open holds up readers for as long.
                            {"transaction.timeout.ms", "10000"}});
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_ERROR);
  }
  rd_kafka_conf_set_log_cb(conf.get(), role == Role::kDocumentWriter ? &WriterLogLine : &LogLine);
  if (!good) return nullptr;
  return conf;
}

ClientPtr NewClient(ConfPtr conf, Role role, std::string& error) {
  std::array<char, 512> text{};
  const bool writes = role == Role::kProducer || role == Role::kControlProducer || role == Role::kDocumentWriter;
  const auto type = writes ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER;
  ClientPtr client(rd_kafka_new(type, conf.get(), text.data(), text.size()));
  if (client == nullptr) {
    error = text.data();
    return nullptr;
  }
  static_cast<void>(conf.release());  // the client's now
  return client;
}

ClientPtr NewClient(const ClientConfig& config, Role role, std::string& error) {
  ConfPtr conf = BuildConf(config, role, error);
  if (conf == nullptr) return nullptr;
  return NewClient(std::move(conf), role, error);
}

bool DestroyWithin(std::chrono::milliseconds patience, ClientPtr client, const std::string& what) {
  config::ErrandThread thread;
  thread.Post([raw = client.release()](const std::stop_token&) { rd_kafka_destroy(raw); });
  if (thread.Stop(patience)) return true;
  clients_abandoned = true;
  runtime::Log(runtime::LogLevel::kWarning, "librdkafka does not end a client: it is left behind", {{"client", what}});
  return false;
}

std::optional<std::string> ReadBack(const rd_kafka_conf_t* conf, const std::string& key) {
  std::array<char, 1024> value{};
  std::size_t size = value.size();
  if (rd_kafka_conf_get(conf, key.c_str(), value.data(), &size) != RD_KAFKA_CONF_OK) return std::nullopt;
  return std::string(value.data());
}

bool ClientsAbandoned() { return clients_abandoned; }

}  // namespace posthorn::kafka
