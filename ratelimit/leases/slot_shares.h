#pragma once

#include <cstdint>
#include <vector>

#include "ratelimit/leases/messages.h"

namespace posthorn::ratelimit {

/// What slot k of N may use of a window without a lease: its cards of the permit line (share_dealing.h).
///
/// A worker and the coordinator that counts for it learn of changed terms at different times. For `settle` labels after
/// a change the worker goes by the least that any of the terms deals to any slot, and the coordinator by the most: the
/// ledger then never counts less than is used, whoever learned first. Once settled both are exact and all slots make
/// exactly MaxRate::Total.
///
/// Threads  One at a time.
class SlotShares {
 public:
  /// `now`: the label in which the terms became known. Counts as a change: who starts does not know what was before.
  SlotShares(const Terms& terms, int settle, Label now);

  /// False: of no higher revision than the terms known; nothing has changed.
  bool SetTerms(const Terms& terms, Label now);
  [[nodiscard]] const Terms& terms() const { return terms_; }

  [[nodiscard]] std::int64_t Least(std::uint32_t slot, Label w) const;
  [[nodiscard]] std::int64_t Most(std::uint32_t slot, Label w) const;

  /// Slots that may use anything: also those that only earlier terms had.
  [[nodiscard]] std::uint32_t slots() const;

 private:
  friend struct StateBytes;
  Terms terms_;
  int settle_;
  Label settled_from_;
  std::vector<Terms> earlier_;  // that count while not settled
};

}  // namespace posthorn::ratelimit
