#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ratelimit/leases/messages.h"

namespace posthorn::fleet {

/// Adds up what all workers say that they have used of each window: the promise, checked where everything comes
/// together. Sees what is reported; a window that a worker has not reported on counts without it.
///
/// Threads  One at a time.
class UseAudit {
 public:
  /// From this label on the limit is that; what was granted before runs on for a lease's length.
  void SetTerms(const std::string& limit, const ratelimit::Terms& terms, ratelimit::Label now);
  void Forget(const std::string& limit) { limits_.erase(limit); }
  /// Left out when its label is nowhere near `now`.
  void Hear(ratelimit::Incarnation from, const ratelimit::LimitReport& report, ratelimit::Label now);
  /// Windows before `label` - kWait are judged. Returns the permits above the totals that were found.
  std::uint64_t Close(ratelimit::Label label);

 private:
  static constexpr ratelimit::Label kWait = 3;    // for the reports
  static constexpr ratelimit::Label kRunOn = 12;  // a lease that was granted before, and clocks that differ
  struct Limit {
    struct Before {
      ratelimit::Terms terms;
      ratelimit::Label until = 0;  // counts for labels before
    };
    ratelimit::Terms terms;
    std::vector<Before> before;
    std::map<ratelimit::Label, std::map<ratelimit::Incarnation, std::int64_t>> used;
  };
  std::map<std::string, Limit> limits_;
};

}  // namespace posthorn::fleet
