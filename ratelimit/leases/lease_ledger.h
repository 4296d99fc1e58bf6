#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "ratelimit/leases/messages.h"
#include "ratelimit/leases/mutation.h"
#include "ratelimit/leases/slot_shares.h"

namespace posthorn::ratelimit {

/// What every worker of one limit may still use of each window, at most, as far as its coordinator can know.
///
/// The *exposure* X_i(w) of a worker is the highest share of label w among the grants it may hold: those from the
/// newest it has acknowledged on, sent or lost. What it used or may have used of earlier labels stays counted as it
/// was. The rules that keep the sum of what is used below the total, always:
///
///   C1  A grant may leave only if, for every label, either the exposures make at most the total with it, or its share
///       is no more than that of the newest grant sent before. ("No more than the exposure" would give shares a second
///       time: after a replay exposure is more than anybody holds.)
///   C2  An ack drops older grants for the acker's label and later ones. For labels before it the exposure stays, and
///       for the acker's own label it is what the acker says it is still committed to.
///   C3  Nothing else is forgotten before its label has passed.
///
/// Slots    Where the terms have slots, each slot's share counts as exposure in every label that no lease of its
///          process is known to cover, also while no process of it has ever reported. So workers that fall back to
///          their slot, and workers that know nothing of leases, are inside the total.
/// Time     Labels only. Correct whatever the labels of the workers are; ForgetBefore must not go back.
/// Units    Permits of one window.
/// Threads  One at a time.
/// Errors   Reports are not trusted to make sense: an impossible ack is left out. A claim on a slot is trusted.
class LeaseLedger {
 public:
  struct Options {
    int length = 10;  // of a lease, in windows; at most kLongestLease
    int settle = 3;   // windows within which everybody learns of changed terms
    Mutation mutation = Mutation::kNone;
  };
  class Holder;
  using Holders = std::map<Incarnation, Holder>;

  LeaseLedger(const Terms& terms, const Options& options, Label now);

  /// False: not newer than the terms known.
  bool SetTerms(const Terms& terms, Label now);
  [[nodiscard]] const Terms& terms() const { return slots_.terms(); }
  [[nodiscard]] std::int64_t Total(Label w) const { return terms().Total(w); }

  /// C1.
  [[nodiscard]] bool MaySend(const Grant& grant) const;
  /// To be called before the grant leaves, whatever becomes of it then.
  void Send(const Grant& grant);

  /// A grant of the log, written by an earlier coordinator. `certain`: the log's fence accepts it. One of which that
  /// cannot be said (read before any EPOCH) counts as exposure, but does not entitle to a second grant under C1.
  void Replay(const Grant& grant, bool certain);

  /// C2, and who the worker is. False: the report does not make sense (impossible ack or label) and was left out.
  bool Hear(Incarnation from, const LimitReport& report, const std::optional<SlotClaim>& claim);

  /// Labels before `floor` have passed: no grant begins there any more.
  void ForgetBefore(Label floor);

  /// Every process that may use something, by incarnation.
  [[nodiscard]] const Holders& holders() const { return holders_; }
  [[nodiscard]] std::int64_t Exposure(const Holder& holder, Label w) const;
  /// Share in the newest grant sent; C1 lets it be sent again.
  [[nodiscard]] std::int64_t Last(const Holder& holder, Label w) const;
  /// What a worker that knows the terms in force makes of Last (W5). When no more than this is granted while exposures
  /// are above a lowered total, all who have learned of it stay within it together, whichever grant each of them holds.
  [[nodiscard]] std::int64_t LastCut(const Holder& holder, Label w) const;
  /// Of all processes and of the slots that nobody has claimed.
  /// Cost  Kept for the labels of running leases, until a report is heard: then one pass over all.
  [[nodiscard]] std::int64_t TotalExposure(Label w) const;

  /// One past the last label that `holder` was granted in its newest grant; `floor` when it has none.
  [[nodiscard]] Label CoveredUntil(const Holder& holder) const;

 private:
  friend struct StateBytes;

  void TakeClaim(Incarnation from, Holder& holder, const SlotClaim& claim);
  void TakeAck(Holder& holder, const LimitReport& report);
  void KeepPast(Holder& holder, const LimitReport& report) const;
  void Push(Holder& holder, const Grant& grant, bool certain);
  [[nodiscard]] std::int64_t Fallback(const Holder& holder, Label w, Label covered_until) const;
  [[nodiscard]] std::int64_t ExposureWith(const Holder& holder, const Grant& grant, Label w) const;
  [[nodiscard]] std::int64_t SumAt(Label w) const;
  [[nodiscard]] std::int64_t Unclaimed(Label w) const;

  Options options_;
  SlotShares slots_;
  Label floor_;
  Holders holders_;
  struct Occupancy {
    Incarnation occupant = 0;  // newest process known
    Label known_from = 0;      // earlier labels belong to processes that never reported
  };
  std::map<std::uint32_t, Occupancy> occupied_;

  // TotalExposure of [floor_, floor_ + sums_.size()); empty: to be worked out.
  mutable std::vector<std::int64_t> sums_;
};

/// A process in the ledger.
class LeaseLedger::Holder {
 public:
  [[nodiscard]] GrantId acknowledged() const { return acked_; }
  [[nodiscard]] bool left() const { return left_.has_value(); }
  /// Another process is known to run in its slot: this one is dead.
  [[nodiscard]] bool superseded() const { return until_ != kForever; }
  [[nodiscard]] const std::optional<SlotClaim>& claim() const { return claim_; }

 private:
  friend class LeaseLedger;
  friend struct StateBytes;
  static constexpr Label kForever = std::numeric_limits<Label>::max();
  struct Out {
    GrantId id;
    Label first = 0;
    std::vector<std::int64_t> shares;
    Terms terms;  // it was planned for
    bool certain = true;
    [[nodiscard]] Label end() const { return first + static_cast<Label>(shares.size()); }
    [[nodiscard]] std::int64_t ShareAt(Label w) const {
      return w >= first && w < end() ? shares[static_cast<std::size_t>(w - first)] : 0;
    }
  };
  [[nodiscard]] const Out* Newest() const;
  [[nodiscard]] Label LeastEnd() const;
  [[nodiscard]] Label MostEnd() const;

  std::vector<Out> out_;  // by id: from the newest acknowledged on, without those whose labels have passed
  std::vector<std::pair<Label, std::int64_t>> past_;
  GrantId newest_;  // ever sent
  GrantId acked_;

  // Of grants left out of out_ because their labels have passed: one of them may still be what the process holds.
  GrantId expired_newest_;
  Label expired_end_ = kForever;

  std::optional<SlotClaim> claim_;
  Label until_ = kForever;  // labels from here on are its slot's successor's
  Label covered_from_ = kForever;
  std::optional<Label> left_;
};

}  // namespace posthorn::ratelimit
