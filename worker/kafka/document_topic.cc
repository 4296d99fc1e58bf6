#include "worker/kafka/document_topic.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "config/sources/file_reader.h"
#include "worker/kafka/acked_producer.h"
#include "worker/kafka/topic_reader.h"

namespace posthorn::kafka {
namespace {

constexpr std::size_t kLongestName = 200;
constexpr std::chrono::milliseconds kTopicLookInterval{100};
// So that `history` has at least the last week, however often compaction runs.
constexpr const char* kKeptWhole = "604800000";
constexpr const char* kSegmentTime = "86400000";
constexpr const char* kSegmentBytes = "67108864";

}  // namespace

bool IsDocumentKey(std::string_view key) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return key.size() <= kLongestName && std::all_of(key.begin(), key.end(), allowed) &&
         config::IsDocumentName(std::string(key));
}

std::optional<DocumentChange> ReadDocumentChange(const delivery::Record& record) {
  if (!record.key() || !IsDocumentKey(*record.key())) return std::nullopt;
  DocumentChange change;
  change.name = *record.key();
  if (record.value()) change.text = std::string(*record.value());
  change.offset = record.offset();
  change.timestamp_ms = record.timestamp_ms();
  if (const auto* author = record.FindHeader(kAuthorHeader); author != nullptr && author->value) {
    change.author = *author->value;
  }
  return change;
}

void Apply(DocumentChange change, std::map<std::string, std::string>* documents) {
  if (change.text) {
    (*documents)[change.name] = std::move(*change.text);
  } else {
    documents->erase(change.name);
  }
}

std::map<std::string, std::string> DocumentLog::Documents() const {
  std::map<std::string, std::string> documents;
  for (const auto& change : changes) Apply(change, &documents);
  return documents;
}

const DocumentChange* DocumentLog::Find(std::string_view name) const {
  const auto found =
      std::find_if(changes.rbegin(), changes.rend(), [&](const auto& change) { return change.name == name; });
  return found == changes.rend() || !found->text ? nullptr : &*found;
}

std::optional<DocumentLog> ReadDocumentTopic(const ClientConfig& config, const std::string& topic,
                                             std::chrono::milliseconds patience, std::string& error) {
  const auto cluster = ClusterQuestions::Create(config, patience, error);
  if (cluster == nullptr) return std::nullopt;
  const auto partitions = cluster->Partitions(topic);
  DocumentLog log;
  if (partitions == 0) return log;
  if (partitions && !(error = WhyUnfit(*cluster, topic, *partitions, false)).empty()) return std::nullopt;
  const auto bounds = partitions ? cluster->Bounds({topic, 0}) : std::nullopt;
  if (!bounds) {
    error = cluster->last_error();
    return std::nullopt;
  }
  const auto take = [&](const delivery::TopicPartition&, const delivery::RecordPtr& record) {
    log.newest = record->offset();
    if (auto change = ReadDocumentChange(*record)) {
      log.changes.push_back(std::move(*change));
    } else {
      ++log.foreign;
    }
    return true;
  };
  if (!ReadSections(config, {{{topic, 0}, bounds->first, bounds->second}}, patience, take, error)) return std::nullopt;
  return log;
}

std::string WhyUnfit(ClusterQuestions& cluster, const std::string& topic, std::int32_t partitions, bool ask_settings) {
  if (partitions > 1) {
    return "the topic " + topic + " has " + std::to_string(partitions) +
           " partitions: documents need one with a single partition";
  }
  // Who may not ask is taken at their word.
  const auto policy = ask_settings ? cluster.TopicSetting(topic, "cleanup.policy") : std::nullopt;
  if (!policy || *policy == "compact") return {};
  return "the topic " + topic + " has cleanup.policy=" + *policy +
         ": Kafka would delete documents that are in force; it needs `compact`";
}

bool MakeDocumentTopic(const ClientConfig& config, const std::string& topic, std::optional<int> replication,
                       std::chrono::milliseconds patience, std::string& error) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto cluster = ClusterQuestions::Create(config, patience, error);
  if (cluster == nullptr) return false;
  auto partitions = cluster->Partitions(topic);
  std::shared_ptr<AckedProducer> maker;
  while (partitions && *partitions == 0) {
    if (maker == nullptr) {
      AckedProducer::Topic wanted;
      wanted.name = topic;
      wanted.what = "topic of the subscriptions";
      wanted.partitions = 1;
      wanted.replication = replication.value_or(-1);
      wanted.settings = {{"cleanup.policy", "compact"},
                         {"min.compaction.lag.ms", kKeptWhole},
                         // Whoever was cut off for less finds every removal when it goes on reading.
                         {"delete.retention.ms", kKeptWhole},
                         {"segment.ms", kSegmentTime},
                         {"segment.bytes", kSegmentBytes},
                         // By the brokers' clock: a topic that was made anew is told from the one before.
                         {"message.timestamp.type", "LogAppendTime"},
                         {"unclean.leader.election.enable", "false"}};
      if (replication) wanted.settings.emplace_back("min.insync.replicas", *replication >= 3 ? "2" : "1");
      maker = AckedProducer::Create(config, {std::move(wanted)}, error);
      if (maker == nullptr) return false;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      error = "the topic " + topic + " could not be made";
      return false;
    }
    std::this_thread::sleep_for(kTopicLookInterval);  // brokers tell nobody that a topic is there
    partitions = cluster->Partitions(topic);
  }
  error = partitions ? WhyUnfit(*cluster, topic, *partitions, true) : cluster->last_error();
  return error.empty();
}

}  // namespace posthorn::kafka
