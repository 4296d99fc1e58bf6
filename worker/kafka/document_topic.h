#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/cluster_questions.h"

namespace posthorn::kafka {

// A topic of documents: compacted, one partition. A record's key is a document's name, its value the whole document; a
// key without a value removes it. Whoever reads to the end has the documents, whatever compaction has left.

/// Whether a key is a document's name: letters, digits, `.`, `_` and `-`, at most 200, and one of the endings that
/// files of a directory of documents have. Records with other keys belong to somebody else.
[[nodiscard]] bool IsDocumentKey(std::string_view key);

/// The header with which a writer says who it was.
inline constexpr std::string_view kAuthorHeader = "posthorn-author";

struct DocumentChange {
  std::string name;
  std::optional<std::string> text;  // unset: removed
  delivery::Offset offset = 0;
  std::int64_t timestamp_ms = -1;
  std::string author;  // empty: not told
};

/// Puts what it says in force among the documents (name -> text).
void Apply(DocumentChange change, std::map<std::string, std::string>* documents);

/// What a record says; unset: it is foreign.
[[nodiscard]] std::optional<DocumentChange> ReadDocumentChange(const delivery::Record& record);

/// What a topic holds: its records in the order of the log, as far as compaction has left them.
struct DocumentLog {
  std::vector<DocumentChange> changes;
  std::uint64_t foreign = 0;
  delivery::Offset newest = -1;  // of all records, foreign ones too; -1: there is none
  /// Name -> text of what is in force.
  [[nodiscard]] std::map<std::string, std::string> Documents() const;
  /// The newest change of a document that is in force; null: there is none of that name.
  [[nodiscard]] const DocumentChange* Find(std::string_view name) const;
};

/// Reads what is committed now, outside every group; a topic that is not there is empty. Unset: `error` says why.
[[nodiscard]] std::optional<DocumentLog> ReadDocumentTopic(const ClientConfig& config, const std::string& topic,
                                                           std::chrono::milliseconds patience, std::string& error);

/// What keeps a topic that is there from holding documents (several partitions, or a cleanup that deletes them); empty:
/// nothing, as far as the cluster tells.
[[nodiscard]] std::string WhyUnfit(ClusterQuestions& cluster, const std::string& topic, std::int32_t partitions,
                                   bool ask_settings);

/// Makes the topic where it is missing. Blocks for at most about `patience`. False: it is not there or unfit, `error`
/// says why.
[[nodiscard]] bool MakeDocumentTopic(const ClientConfig& config, const std::string& topic,
                                     std::optional<int> replication, std::chrono::milliseconds patience,
                                     std::string& error);

}  // namespace posthorn::kafka
