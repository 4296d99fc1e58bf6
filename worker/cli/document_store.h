#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "config/load.h"
#include "worker/cli/document_change.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/document_topic.h"
#include "worker/kafka/document_writer.h"

namespace posthorn::cli {

/// The topic of documents that a deployment names, for commands: reads it, and changes it so that a change is judged
/// against what it replaces, also while others write (kafka::DocumentWriter).
///
/// Errors   Everything that cannot be done is said on `err`.
/// Time     Each step blocks for at most about 10 s; a change that others overtake is begun anew for a minute.
class DocumentStore {
 public:
  /// Unset: the deployment has another source, or its settings are refused.
  static std::optional<DocumentStore> Open(const config::Deployment& deployment,
                                           const config::Capabilities& capabilities, std::ostream& err);

  [[nodiscard]] const std::string& topic() const { return topic_; }
  [[nodiscard]] std::optional<kafka::DocumentLog> Read();

  struct Change {
    ChangeRequest request;                                  // its `effective_at` is set from `effective_in`
    std::optional<std::chrono::milliseconds> effective_in;  // from the moment of writing
    std::optional<int> replication;                         // of the topic, where it is made
    bool dry_run = false;
  };
  struct Changed {
    JudgedChange judged;
    kafka::DocumentLog log;  // as it is now
  };
  /// Unset: nothing was changed, unless `err` says that Kafka has not answered, or that it was.
  [[nodiscard]] std::optional<Changed> Apply(const Change& change);

 private:
  DocumentStore(kafka::ClientConfig config, std::string topic, const config::Capabilities& capabilities,
                std::ostream& err)
      : config_(std::move(config)), topic_(std::move(topic)), capabilities_(capabilities), err_(&err) {}
  void Say(const std::string& why);
  std::optional<JudgedChange> JudgeNow(const kafka::DocumentLog& log, const Change& change);
  enum class Attempt { kWritten, kAgain, kFailed };
  Attempt TryOnce(const Change& change, std::optional<Changed>& result);
  Attempt Settle(const JudgedChange& judged, std::optional<Changed>& result);
  std::optional<kafka::DocumentLog> ReadBack(const kafka::DocumentWriter::Changes& changes, delivery::Offset before);

  kafka::ClientConfig config_;
  std::string topic_;
  config::Capabilities capabilities_;
  std::ostream* err_;
};

}  // namespace posthorn::cli
