#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ratelimit/leases/lease_ledger.h"
#include "ratelimit/leases/log_fence.h"
#include "ratelimit/leases/messages.h"

namespace posthorn::ratelimit {

/// Plans the limits of one control partition, from claiming the partition's log until another one has it.
///
///   reading   is given the tail of the log: at least a lease's length and four windows of it. Then Claim.
///   claiming  goes on reading. Its own EPOCH, if in force, makes it leading: by then it has read every grant that any
///             worker can hold. Should the EPOCH be lost, Claim again.
///   leading   Plan gives records to append, in this order.
///   fenced    somebody else's EPOCH is in force: of no use any more. Start another one to try again.
///
/// After taking over it plans a limit when every worker of its log has reported, or two windows later: until then they
/// go on with the leases they have.
///
/// Log      Every record, its own too, in the order of the log. An append may fail or be late: nothing depends on it.
/// Time     `now` at each call; a running label of its own that never goes back. No promise depends on its clock.
/// Threads  One at a time.
/// Errors   A report that makes no sense for one limit is left out for that limit alone, and counted.
class Coordinator {
 public:
  struct Options {
    Incarnation self = 0;
    int length = 10;       // of a lease, in windows: 1 to kLongestLease, the same at all coordinators and workers
    int silent_after = 2;  // windows without a report after which a worker's share ends with its lease
    int settle = 3;        // windows within which everybody learns of changed terms
    Mutation mutation = Mutation::kNone;
  };
  enum class Phase : std::uint8_t { kReading, kClaiming, kLeading, kFenced };

  explicit Coordinator(const Options& options);

  /// A limit that is planned from here on, or newer terms of it. Ignored when of no higher revision than those known.
  void SetTerms(const std::string& limit, const Terms& terms, WallTime now);
  /// A limit that nobody has any more: not planned, and forgotten when every lease of it is over. SetTerms takes it
  /// back.
  void Forget(const std::string& limit, WallTime now);

  void OnLog(const Epoch& epoch, WallTime now);
  void OnLog(const Grant& grant, WallTime now);

  /// To be appended to the log. Requires kReading or kClaiming, with the log read up to its end.
  Epoch Claim(WallTime now);

  /// Reports that come before it leads are dropped: the next ones tell the same.
  void OnReport(const Report& report, WallTime now);

  /// Grants that changed demands or the passing of time ask for; to be called after every batch of reports, and in
  /// every window. Counted as sent when this returns.
  std::vector<ControlRecord> Plan(WallTime now);

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] std::uint64_t epoch() const { return claimed_; }
  [[nodiscard]] Label label() const { return label_; }

  struct MemberView {
    Incarnation who = 0;
    bool live = false;
    bool starved = false;
    std::int64_t share = 0;     // of the running label, in the newest grant
    std::int64_t exposure = 0;  // of the running label
    std::int64_t demand = 0;
    std::int64_t used_before = 0;
    Label last_label = 0;  // of its newest report
  };
  struct LimitView {
    Terms terms;
    std::int64_t total = 0;     // of the running label
    std::int64_t exposure = 0;  // of the running label; above the total only after a lowered total or a take-over
    std::uint64_t senseless_reports = 0;
    std::vector<MemberView> members;
  };
  /// For display. nullopt: no such limit.
  [[nodiscard]] std::optional<LimitView> View(const std::string& limit) const;

 private:
  friend struct StateBytes;
  struct Member {
    // Demand rises at once and falls when a whole window has asked for less.
    std::int64_t demand = 0;
    std::int64_t demand_before = 0;
    std::int64_t used_before = 0;
    Label label = 0;  // of the demand, by the worker
    Label heard = 0;  // by the coordinator
    bool starved = false;
    bool leaving = false;
    [[nodiscard]] std::int64_t Demand() const { return demand > demand_before ? demand : demand_before; }
  };
  struct Limit {
    explicit Limit(const LeaseLedger& limit_ledger) : ledger(limit_ledger) {}
    LeaseLedger ledger;
    std::map<Incarnation, Member> members;
    bool changed = true;
    bool settled = false;  // after a take-over: everybody has been heard, or had the time
    std::uint64_t senseless_reports = 0;
    std::optional<Label> forget_from;
  };

  Label Advance(WallTime now);
  Limit& LimitOf(const std::string& name, const Terms& terms);
  void Lead();
  [[nodiscard]] bool Live(const Limit& limit, Incarnation who, const Member& member) const;
  [[nodiscard]] bool AllHeard(const Limit& limit) const;
  void PlanLimit(const std::string& name, Limit& limit, std::vector<ControlRecord>& out);
  static void TakeDemand(Member& member, const LimitReport& report, Label heard);

  Options options_;
  Phase phase_ = Phase::kReading;
  LogFence fence_;
  std::uint64_t claimed_ = 0;
  std::uint64_t sequence_ = 0;
  Label label_ = std::numeric_limits<Label>::min();
  Label leading_from_ = 0;
  Label planned_ =
      std::numeric_limits<Label>::min();  // newest label for which the EPOCH was repeated and all limits were planned
  std::map<std::string, Limit> limits_;
};

}  // namespace posthorn::ratelimit
