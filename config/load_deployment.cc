#include <algorithm>
#include <charconv>
#include <fstream>
#include <tuple>

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

// `kafka.bootstrap.servers` is one setting of `kafka`; elsewhere dots part sections.
std::vector<std::string> KeyParts(std::string_view key) {
  constexpr std::string_view kKafka = "kafka.";
  constexpr std::string_view kControl = "control.kafka.";
  if (key.starts_with(kKafka)) return {"kafka", std::string(key.substr(kKafka.size()))};
  if (key.starts_with(kControl)) return {"control", "kafka", std::string(key.substr(kControl.size()))};
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
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

struct Source {
  std::string_view file;
  std::string_view text;
  std::filesystem::path directory;  // for relative paths in the file; empty: as they stand
};

Loaded<Deployment> Load(const Source& source, const std::vector<std::string>& overrides,
                        const Environment& environment) {
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
    if (key == "kafka" || key == "control.kafka") ReadKafka(deployment, std::get<std::vector<TextEntry>>(value));
    if (key == "membership") {
      membership_given = true;
      membership = &node;
    }
    if (key == "subscriptions.file" && node.file.empty() && !source.directory.empty()) {
      const std::filesystem::path path = deployment.subscriptions_file;
      if (path.is_relative() && !path.empty()) deployment.subscriptions_file = (source.directory / path).string();
    }
  });

  const Node* kafka = root.Find("kafka");
  const bool kafka_map = kafka != nullptr && (kafka->kind == Node::Kind::kMap || kafka->kind == Node::Kind::kNull);
  if (kafka_map && kafka->Find("bootstrap.servers") == nullptr) {
    reader.AddFault(*kafka, "kafka.bootstrap.servers", "", "is needed");
  }
  const Node* control = root.Find("control");
  const Node* other = control != nullptr ? control->Find("kafka") : nullptr;
  if (other != nullptr && other->kind == Node::Kind::kMap && !other->keys.empty() &&
      other->Find("bootstrap.servers") == nullptr) {
    reader.AddFault(*other, "control.kafka.bootstrap.servers", "", "is needed");
  }
  const Node* subscriptions = root.Find("subscriptions");
  const bool no_source = subscriptions != nullptr && subscriptions->kind != Node::Kind::kScalar &&
                         subscriptions->kind != Node::Kind::kList && subscriptions->keys.empty();
  const Node* source_file = subscriptions != nullptr ? subscriptions->Find("file") : nullptr;
  const bool empty_file = source_file != nullptr && source_file->kind == Node::Kind::kScalar &&
                          deployment.subscriptions_file.empty() && faults.empty();
  if (no_source || empty_file) reader.AddFault(*subscriptions, "subscriptions.file", "", "is needed");
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
