#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ratelimit/leases/messages.h"
#include "ratelimit/leases/mutation.h"
#include "ratelimit/leases/slot_shares.h"

namespace posthorn::ratelimit {

/// What one worker process may use of one limit: the shares of the newest grant it holds, and beside them the share of
/// its slot, if it has one.
///
///   W1  Only a newer grant replaces the one held, and replaces it altogether.
///   W2  The cap of a label is its share in the grant held; after the last label of that grant, and before the first
///       grant, what the slot has; without a slot nothing.
///   W3  A cap of the running label may fall below what is used of it. Used stays used, and is reported as committed.
///   W4  The running label never goes back.
///   W5  Terms with a lower total cut the shares in proportion at once, without asking anybody.
///   W6  A new process is another incarnation and holds nothing. Its slot's share waits until every lease that a
///       predecessor in the slot can have held is over.
///   W7  A grant that begins further ahead than clocks differ is not taken: its labels are not those meant here.
///
/// Which records of the log count at all is decided before, by LogFence.
///
/// Use      Give it every change first and the counter the new cap afterwards, then report: what is used by then is
///          what counts. Units: permits of one window.
/// Threads  One at a time; const members from any thread while nobody writes.
class Lease {
 public:
  struct Process {
    Incarnation self = 0;
    std::optional<std::uint32_t> slot;
    Label started = 0;     // its running label when the process started
    int length = 10;       // of a lease, the same at all coordinators
    int clock_labels = 1;  // clocks of two workers, or of a worker and a coordinator, differ by at most so many labels
    int settle = 3;        // windows within which everybody learns of changed terms
  };

  Lease(std::string limit, const Process& process, const Terms& terms, WallTime now,
        Mutation mutation = Mutation::kNone);

  /// The newest label of all given times (W4).
  Label Advance(WallTime now);
  [[nodiscard]] Label label() const { return label_; }

  /// True: it is held from here on. False: of somebody else, older, or malformed.
  bool Accept(const Grant& grant, WallTime now);

  /// False: not newer than the terms known.
  bool SetTerms(const Terms& terms, WallTime now);

  enum class Source : std::uint8_t {
    kLease,
    kFallback,  // no lease covers the label: the share of the slot
    kNothing,   // no lease covers the label and there is no slot, not yet, or none that counts: the worker waits
  };
  struct Cap {
    std::int64_t permits = 0;
    Source source = Source::kNothing;
    bool operator==(const Cap&) const = default;
  };
  [[nodiscard]] Cap CapAt(Label w) const;

  /// One past the last label of the lease; nullopt when it never had one. Until then nothing has to be heard.
  [[nodiscard]] std::optional<Label> CoveredUntil() const;

  /// Uses nothing any more: every cap is 0 from here on, and the report says that the rest may go to others.
  void Leave() { left_ = true; }

  /// `used`: permits counted in label(), after the counter was given CapAt(label()). `used_before`: in label() - 1.
  [[nodiscard]] LimitReport Report(std::int64_t used, std::int64_t used_before, std::int64_t demand,
                                   bool starved) const;

  /// Goes with every report of the process. nullopt: no slot.
  [[nodiscard]] static std::optional<SlotClaim> ClaimOf(const Process& process);

  [[nodiscard]] const Terms& terms() const { return slots_.terms(); }
  [[nodiscard]] GrantId held() const { return held_ ? held_->id : GrantId{}; }

 private:
  friend struct StateBytes;

  std::string limit_;
  Process process_;
  SlotShares slots_;
  Label label_;
  Mutation mutation_;
  bool left_ = false;
  std::optional<Grant> held_;
};

}  // namespace posthorn::ratelimit
