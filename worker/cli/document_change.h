#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "worker/runtime/clock.h"

namespace posthorn::cli {

using Documents = std::map<std::string, std::string>;                       // name -> text
using DocumentChanges = std::map<std::string, std::optional<std::string>>;  // unset: removed

/// Of a single document, for `--expect`; equal for equal name and text.
[[nodiscard]] std::string DocumentRevision(const std::string& name, const std::string& text);
/// The name of the document that is put from a file called so: with `.yaml` at its end where nothing there says what it
/// is. Empty: none can be called so.
[[nodiscard]] std::string DocumentNameFor(const std::string& given);
/// The names of the subscriptions in a document, as far as it can be read.
[[nodiscard]] std::vector<std::string> SubscriptionsIn(const std::string& text);

struct ChangeRequest {
  DocumentChanges changes;
  std::string expect;  // revision that must be in force, of the one document or of all; `none`: it must not be there
  std::optional<runtime::WallTime> effective_at;  // to be written into the first document that is put
};

/// A change of the documents, judged against all others of the source.
struct JudgedChange {
  std::string conflict;                    // what is in force is not what was expected; empty: it is
  std::vector<config::Fault> faults;       // of all documents as they would be
  DocumentChanges changes;                 // what is to be written: nothing that would stay as it is
  Documents documents;                     // as they would be
  std::optional<config::Snapshot> before;  // unset: what is in force has faults; nothing in force: empty
  std::optional<config::Snapshot> after;   // set unless there are conflict or faults
  std::vector<std::string> notes;          // one line each
};

/// Files that `file:` names and this machine has not count as readable: the workers have them. `notes` names them.
[[nodiscard]] JudgedChange Judge(const Documents& in_force, const ChangeRequest& request,
                                 const config::Capabilities& capabilities, runtime::WallTime now,
                                 const config::Environment& environment = config::SystemEnvironment());

}  // namespace posthorn::cli
