#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "config/secret.h"

namespace posthorn::config {

enum class SourceKind : std::uint8_t { kFile, kCentralDogma, kKafkaTopic, kEtcd, kUrl };

struct CentralDogmaSettings {
  std::string url;  // of the server, without a path
  std::string project;
  std::string repository;
  std::string path;  // pattern of the documents, `/subscriptions/**`
  Secret token;      // empty: anonymous
  std::string ca;    // file; empty: the system's
  bool operator==(const CentralDogmaSettings&) const = default;
};

struct KafkaTopicSettings {
  std::string name;
  std::map<std::string, std::string> kafka;  // of its cluster; empty: the fleet's; values may be secrets
  bool operator==(const KafkaTopicSettings&) const = default;
};

struct EtcdSettings {
  std::string url;  // of the server, without a path
  std::string prefix;
  std::string user;  // empty: no authentication
  Secret password;
  std::string ca;             // file; empty: the system's
  std::string certificate{};  // file, of the client; empty: none
  std::string key{};          // file; secret
  bool operator==(const EtcdSettings&) const = default;
};

struct UrlSettings {
  std::string url;  // its query may be a secret
  std::chrono::milliseconds every{10'000};
  std::map<std::string, Secret> headers;
  std::string ca;  // file; empty: the system's
  bool operator==(const UrlSettings&) const = default;
};

/// Where the subscriptions come from: one of five, the settings of the others are as if unset.
struct SourceSettings {
  SourceKind kind = SourceKind::kFile;
  std::string file;  // file or directory
  CentralDogmaSettings central_dogma;
  KafkaTopicSettings kafka_topic;
  EtcdSettings etcd;
  UrlSettings url;
  std::string cache;  // directory of the last good revision; empty: none
  bool operator==(const SourceSettings&) const = default;
};

/// For people: `file subscriptions.yaml`, `etcd http://etcd:2379 /posthorn/`. Never a secret.
std::string ToString(const SourceSettings& settings);

}  // namespace posthorn::config
