#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "config/load.h"
#include "config/sources/source.h"

namespace posthorn::config {

/// What a source of a store with numbered revisions has returned last. The same documents are the same revision: a
/// change beside them, or one that was taken back, is no news.
///
/// Threads  One.
class ShownRevision {
 public:
  /// Whether a caller has what was returned last.
  [[nodiscard]] bool IsHadBy(const std::string& have) const { return !have.empty() && have == revision_; }

  /// The documents of the store's revision `number`, for a caller who has `have`; unset: it has them already.
  [[nodiscard]] std::optional<Outcome> Show(std::int64_t number, std::map<std::string, std::string> files,
                                            const std::string& have) {
    const std::string digest = Digest(files);
    if (IsHadBy(have) && digest == digest_) return std::nullopt;
    RawSnapshot snapshot;
    snapshot.number = std::to_string(number);
    snapshot.revision = revision_ = snapshot.number + "-" + digest;
    snapshot.files = std::move(files);
    digest_ = digest;
    return Changed{std::move(snapshot)};
  }

 private:
  std::string revision_;
  std::string digest_;
};

}  // namespace posthorn::config
