#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <tuple>
#include <utility>

#include "config/document.h"
#include "config/effective.h"
#include "config/fields.h"
#include "config/load.h"
#include "config/option_table.h"
#include "config/reader.h"
#include "config/rules.h"

namespace posthorn::config {
namespace {

constexpr std::string_view kOverride = "--set";

// Dots part sections; behind the name of a map with free keys they belong to the key: `kafka.bootstrap.servers`.
std::vector<std::string> KeyParts(std::string_view key) {
  std::size_t whole = std::string_view::npos;  // where a free key begins
  for (const Option& option : Options(Document::kDeployment)) {
    const bool free_keys = option.type == Type::kTextMap || option.type == Type::kSecretMap;
    if (free_keys && key.starts_with(option.path) && key.substr(option.path.size()).starts_with('.')) {
      whole = option.path.size() + 1;
    }
  }
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '.' && i < whole) {
      parts.emplace_back();
    } else {
      parts.back() += key[i];
    }
  }
  return parts;
}

void Override(Node& root, const std::string& text, std::vector<Fault>& faults) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    faults.push_back({std::string(kOverride), 0, 0, "", equals == 0 ? "" : text, "needs key=value", ""});
    return;
  }
  const std::vector<std::string> parts = KeyParts(std::string_view(text).substr(0, equals));
  Node* node = &root;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (node->kind == Node::Kind::kNull) node->kind = Node::Kind::kMap;
    if (node->kind != Node::Kind::kMap) return;  // reported where it stands
    Node* next = node->Find(parts[i]);
    if (next == nullptr) {
      node->keys.push_back({parts[i], 0, 0});
      node->items.emplace_back();
      next = &node->items.back();
      next->file = kOverride;
    }
    node = next;
  }
  *node = Node();
  node->kind = Node::Kind::kScalar;
  node->text = text.substr(equals + 1);
  node->file = kOverride;
}

std::optional<std::uint32_t> TrailingNumber(const std::string& instance) {
  const std::size_t last = instance.find_last_not_of("0123456789");
  const std::size_t begin = last == std::string::npos ? 0 : last + 1;
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(instance.data() + begin, instance.data() + instance.size(), number);
  if (begin == instance.size() || parsed.ec != std::errc()) return std::nullopt;
  return number;
}

void ReadKafka(Deployment& deployment, const std::vector<TextEntry>& entries) {
  for (const TextEntry& entry : entries) {
    if (LooksSecret(entry.key) || (entry.hidden && !IsPublicKafkaSetting(entry.key))) {
      deployment.secret_kafka.push_back(entry.key);
    }
  }
  std::sort(deployment.secret_kafka.begin(), deployment.secret_kafka.end());
}

constexpr std::string_view kSection = "subscriptions";
constexpr auto kSources = std::to_array<std::string_view>({"file", "central_dogma", "kafka_topic", "etcd", "url"});

// Settings of librdkafka given for another cluster than `kafka`'s need its address.
void CheckCluster(Reader& reader, const Node* kafka, const std::string& path) {
  if (kafka == nullptr || kafka->kind != Node::Kind::kMap || kafka->keys.empty()) return;
  if (kafka->Find("bootstrap.servers") == nullptr) {
    reader.AddFault(*kafka, path + ".bootstrap.servers", "", "is needed");
  }
}

// Exactly one source. What is wrong within it has been reported already.
void CheckSource(Reader& reader, const Node* section, SourceSettings& source, bool faultless) {
  if (section == nullptr || section->kind == Node::Kind::kScalar || section->kind == Node::Kind::kList) return;
  const std::string shown(kSection);
  std::string_view first;
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    const Node* node = section->Find(kSources[i]);
    const bool given = node != nullptr && (i != 0 || node->kind != Node::Kind::kScalar || !source.file.empty());
    if (!given) continue;
    const std::string path = shown + "." + std::string(kSources[i]);
    if (node->kind == Node::Kind::kNull && i != 0) {
      reader.AddFault(*node, path, "", "has no value: needs a map of keys");
    }
    if (!first.empty()) {
      reader.AddFault(*node, path, "", "one source only, and `" + std::string(first) + "` stands here too");
      continue;
    }
    first = kSources[i];
    source.kind = static_cast<SourceKind>(i);
  }
  if (first.empty() && (section->keys.empty() || faultless)) {
    const Node* file = section->Find("file");
    reader.AddFault(file != nullptr ? *file : *section, file != nullptr ? shown + ".file" : shown, "",
                    "needs one source: file, central_dogma, kafka_topic, etcd or url");
  }
  const Node* etcd = section->Find("etcd");
  if (etcd != nullptr && source.etcd.user.empty() != source.etcd.password.empty() && faultless) {
    reader.AddFault(*etcd, shown + ".etcd." + (source.etcd.user.empty() ? "password" : "user"), "",
                    "`user` and `password` need each other");
  }
  if (etcd != nullptr && source.etcd.certificate.empty() != source.etcd.key.empty() && faultless) {
    reader.AddFault(*etcd, shown + ".etcd." + (source.etcd.key.empty() ? "certificate" : "key"), "",
                    "`certificate` and `key` need each other");
  }
  if (const Node* topic = section->Find("kafka_topic"); topic != nullptr) {
    CheckCluster(reader, topic->Find("kafka"), shown + ".kafka_topic.kafka");
  }
  for (std::string* url : {&source.central_dogma.url, &source.etcd.url}) {
    if (url->ends_with('/')) url->pop_back();
  }
}

struct Text {
  std::string_view file;
  std::string_view text;
  std::filesystem::path directory;  // for relative paths in the file; empty: as they stand
};

Loaded<Deployment> Load(const Text& source, const std::vector<std::string>& overrides, const Environment& environment) {
  Loaded<Deployment> result;
  std::vector<Fault>& faults = result.faults;
  const std::string file(source.file);
  std::vector<Node> documents = ParseDocuments(file, source.text, faults);
  if (documents.empty() && !faults.empty()) return result;
  if (documents.size() > 1) {
    faults.push_back({file, documents[1].line, documents[1].column, "", "", "one document only", ""});
  }
  if (documents.empty()) documents.emplace_back().kind = Node::Kind::kMap;
  Node& root = documents.front();
  for (const std::string& text : overrides) Override(root, text, faults);

  Deployment deployment;
  bool membership_given = false;
  const Node* membership = nullptr;
  Reader reader(Document::kDeployment, file, environment, faults);
  reader.ReadSection(root, "", "", [&](std::string_view key, const Node& node, const Value& value) {
    VisitFields(deployment, [&](std::string_view name, auto& field) {
      if (name == key) Assign(field, value);
    });
    if (key.ends_with("kafka")) ReadKafka(deployment, std::get<std::vector<TextEntry>>(value));
    if (key == "membership") {
      membership_given = true;
      membership = &node;
    }
    if (node.file.empty() && !source.directory.empty()) {
      for (const auto& [name, field] : {std::pair("subscriptions.file", &deployment.source.file),
                                        std::pair("subscriptions.cache", &deployment.source.cache)}) {
        const std::filesystem::path path = *field;
        if (key == name && path.is_relative() && !path.empty()) *field = (source.directory / path).string();
      }
    }
  });

  const Node* kafka = root.Find("kafka");
  const bool kafka_map = kafka != nullptr && (kafka->kind == Node::Kind::kMap || kafka->kind == Node::Kind::kNull);
  if (kafka_map && kafka->Find("bootstrap.servers") == nullptr) {
    reader.AddFault(*kafka, "kafka.bootstrap.servers", "", "is needed");
  }
  const Node* control = root.Find("control");
  if (control != nullptr) CheckCluster(reader, control->Find("kafka"), "control.kafka");
  CheckSource(reader, root.Find(kSection), deployment.source, faults.empty());
  if (!membership_given) {
    deployment.membership = deployment.instance.empty() ? Membership::kDynamic : Membership::kStatic;
  } else if (deployment.membership == Membership::kStatic && deployment.instance.empty()) {
    reader.AddFault(*membership, "membership", "static", "static membership needs an `instance`");
  }
  deployment.slot = TrailingNumber(deployment.instance);
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  if (faults.empty()) result.value = std::move(deployment);
  return result;
}

}  // namespace

Loaded<Deployment> LoadDeploymentText(std::string_view file, std::string_view text,
                                      const std::vector<std::string>& overrides, const Environment& environment) {
  return Load({file, text, {}}, overrides, environment);
}

Loaded<Deployment> LoadDeployment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                  const Environment& environment) {
  std::error_code error;
  const bool directory = std::filesystem::is_directory(file, error);
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  if (stream && !directory) {
    text.resize(kMaxDocumentBytes + 1);
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(stream.gcount()));
  }
  if (directory || (!stream && !stream.eof())) {
    Loaded<Deployment> result;
    result.faults.push_back({file.string(), 0, 0, "", "", directory ? "is a directory" : "cannot be read", ""});
    return result;
  }
  return Load({file.string(), text, file.parent_path()}, overrides, environment);
}

bool LooksLikeDeployment(std::string_view text) {
  std::vector<Fault> ignored;
  int deployment = 0;
  int subscriptions = 0;
  for (const Node& document : ParseDocuments("", text, ignored)) {
    for (std::size_t i = 0; i < document.items.size() && document.kind == Node::Kind::kMap; ++i) {
      const std::string& key = document.keys[i].text;
      if (key == "subscriptions") {
        if (document.items[i].kind == Node::Kind::kMap) ++deployment;
        if (document.items[i].kind == Node::Kind::kList) ++subscriptions;
        continue;
      }
      if (FindOption(Document::kDeployment, key) != nullptr) ++deployment;
      if (FindOption(Document::kSubscriptions, key) != nullptr) ++subscriptions;
    }
  }
  return deployment > subscriptions;
}

}  // namespace posthorn::config
