#pragma once

// Private to this room: from a ClientConfig to librdkafka clients.

#include <chrono>
#include <optional>
#include <string>

#include "worker/kafka/client_config.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// What a client is for; each role has settings of its own.
enum class Role {
  kMember,           // the data consumer, member of the fleet's group
  kReader,           // further readers of partitions, in no group
  kAdmin,            // questions and offsets; never fetches
  kProducer,         // acknowledged by all in-sync replicas
  kScan,             // reads a part of a log once, in no group
  kControlMember,    // member of the group of coordinators, reads the demand it is given
  kControlReader,    // reads all grants, in no group
  kControlProducer,  // as kProducer, at once, for what is soon of no use
  kDocuments,        // follows a topic of documents, in no group
  kDocumentWriter,   // writes to one in transactions, see document_writer.h
};
const char* ToString(Role role);

/// The largest record of the control topics, for who writes them and where the topics are made: the reports of 100 000
/// limits. (Grants are written some hundred kilobytes at once.)
inline constexpr int kControlRecordBytes = 8 << 20;

/// The settings of a client; null and `error` set when a setting is refused.
ConfPtr BuildConf(const ClientConfig& config, Role role, std::string& error);

/// A client with `conf` (events of it are polled, its log lines go to runtime::Log); null and `error` set on failure.
ClientPtr NewClient(ConfPtr conf, Role role, std::string& error);
ClientPtr NewClient(const ClientConfig& config, Role role, std::string& error);

/// Destroys a client, and abandons it (abandoned.h) when that takes longer than `patience`; a warning names `what`.
/// True: it is destroyed.
bool DestroyWithin(std::chrono::milliseconds patience, ClientPtr client, const std::string& what);

/// Value of a property as librdkafka has it (tests).
std::optional<std::string> ReadBack(const rd_kafka_conf_t* conf, const std::string& key);

}  // namespace posthorn::kafka
