#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// Changes a topic of documents (document_topic.h), so that no change of anybody else who writes by this class is lost.
///
/// All writers of a topic use one transactional id. Begin waits until whoever wrote before has committed or never will,
/// and shuts out everyone who began before. So what is read after Begin is still in force when Commit succeeds; a
/// Commit that somebody overtook by a Begin of their own writes nothing. Who writes to the topic by other means is not
/// shut out: readers take whatever stands there last.
///
/// Threads  One. Every call blocks, at most for about `patience`.
class DocumentWriter {
 public:
  using Changes = std::map<std::string, std::optional<std::string>>;  // name -> text; unset: remove

  enum class Result {
    kWritten,    // all of them, as one revision; readers see it a moment later, whoever has begun after it at once
    kOvertaken,  // nothing was written: somebody else began meanwhile
    kFailed,     // nothing was written
    kUnknown,    // no answer: only a new Begin and a reading tell
  };

  /// `author`: who is written down as having made the changes. Null and `error` set when the client cannot be made.
  static std::unique_ptr<DocumentWriter> Create(const ClientConfig& config, const std::string& topic,
                                                const std::string& author, std::string& error);
  ~DocumentWriter();
  DocumentWriter(const DocumentWriter&) = delete;
  DocumentWriter& operator=(const DocumentWriter&) = delete;

  /// Once, before what the changes are based on is read.
  [[nodiscard]] bool Begin(std::chrono::milliseconds patience, std::string& error);
  /// Once, after Begin. `error` is set unless it is kWritten.
  [[nodiscard]] Result Commit(const Changes& changes, std::chrono::milliseconds patience, std::string& error);

 private:
  struct Impl;
  explicit DocumentWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// How long to wait before beginning anew after having been overtaken `times` times in a row (at least 1), the last
/// time in an attempt that took `attempt`: at random, and up to twice as long each time, at most 10 s. The length of an
/// attempt counts because those that meet overtake each other until one has the time of an attempt for itself.
std::chrono::milliseconds PauseAfterOvertaken(int times, std::chrono::milliseconds attempt, std::minstd_rand& random);

}  // namespace posthorn::kafka
