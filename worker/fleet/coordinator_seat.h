#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ratelimit/leases/coordinator.h"
#include "worker/fleet/control_wire.h"
#include "worker/fleet/use_audit.h"
#include "worker/runtime/clock.h"

namespace posthorn::fleet {

/// This process's place at one control partition: keeps the tail of its log, and is its coordinator while the process
/// has been given the partition.
///
/// Given it, it claims the log with the whole tail read (Coordinator); not taken up within a second, or fenced by
/// somebody else's claim, it tries again while it still has the partition. Given up, it plans no more; whoever has it
/// next is kept apart from it by the log alone.
///
/// Threads  One at a time.
/// Memory   The records of the last 18 windows, as they came.
class CoordinatorSeat {
 public:
  struct Parts {
    int length = 10;  // of a lease, in windows
    std::uint64_t seed = 0;
    std::function<void(std::vector<ratelimit::ControlRecord>)> append;
  };
  explicit CoordinatorSeat(Parts parts);

  void OnLog(std::string_view bytes, const LogMessage& message, runtime::WallTime now);
  /// Everything that was in the log at the start has come.
  void OnLogEnd() { at_end_ = true; }
  void SetOwned(bool owned, runtime::WallTime now);
  /// Of a limit of this partition. Cheap to repeat.
  void SetTerms(const std::string& limit, const ratelimit::Terms& terms, runtime::WallTime now);
  /// The configuration does not name it any more.
  void Forget(const std::string& limit, runtime::WallTime now);
  /// Those that come before it leads are kept until then: one who has left says so only once.
  void OnReport(const ReportMessage& message, runtime::WallTime now);
  /// Does what is due; returns when it next has something to do.
  runtime::WallTime Tick(runtime::WallTime now);

  [[nodiscard]] bool owned() const { return owned_; }
  /// Null: not at work.
  [[nodiscard]] const ratelimit::Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }
  /// Permits that workers have used above the totals, as far as was reported here.
  [[nodiscard]] std::uint64_t above_total() const { return above_total_; }
  [[nodiscard]] std::string NameOf(ratelimit::Incarnation who) const;

 private:
  void Begin(runtime::WallTime now);
  void Read(const LogMessage& message, runtime::WallTime now);
  void Lead(runtime::WallTime now);
  void Plan(runtime::WallTime now);
  void End();

  const Parts parts_;
  std::mt19937_64 random_;
  struct Kept {
    runtime::WallTime came;
    std::string bytes;
  };
  std::deque<Kept> tail_;
  bool at_end_ = false;
  bool owned_ = false;
  std::map<std::string, ratelimit::Terms> terms_;          // by this worker's configuration
  std::map<ratelimit::Incarnation, ReportMessage> early_;  // newest reports from before it leads
  std::optional<ratelimit::Coordinator> coordinator_;
  bool led_ = false;  // this coordinator has begun to lead
  std::map<std::string, ratelimit::Terms>
      granted_by_;                            // until it leads: those of the highest rate that a grant went by
  runtime::WallTime try_again_{};             // no coordinator: when there may be one
  runtime::WallTime claimed_{};               // claiming: since when
  std::optional<runtime::WallTime> plan_at_;  // leading: reports wait to be planned
  runtime::WallTime planned_{};
  struct Name {
    std::string instance;
    ratelimit::Label heard = 0;
  };
  std::map<ratelimit::Incarnation, Name> names_;
  UseAudit audit_;
  std::uint64_t above_total_ = 0;
};

}  // namespace posthorn::fleet
