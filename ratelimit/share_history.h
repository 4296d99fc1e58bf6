#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ratelimit/plan.h"
#include "ratelimit/share_dealing.h"

namespace posthorn::ratelimit {

/// What this worker may use of each window, from the plan in force and those that others may still go by.
///
/// Workers learn of a change at different times. If each went by its newest plan at once, a window could be spent
/// partly by the old and partly by the new line of permits and exceed both. So an older rate or dealing still counts
/// for windows that begin within `settle` (for a changed number of partitions: session timeout + clock offset) of its
/// end, and
///
///     cap(w) = min over dealings d that count: max( min over rates r that count: share(r, d, w),
///                                                   even share of the newest rate under d )
///
/// A lowered rate acts at once, a raised one too up to its even share; the rest follows when everybody has learned.
/// A change told beforehand (Plan::Next) is part of a rate or dealing: each is then the one in force until that label
/// and the other from it on. Who learns of it at least `settle` ahead goes from one to the other within a label,
/// exactly; who learns later keeps the older one as well, as with any change. One that is replaced by another to come,
/// shortly before or after its label, may have begun at some workers and been called off at others: what was before it
/// and what it says both count until the other begins. Before its first plan a worker counts as one without a share: a
/// new process waits for a window in which nothing can be left over from a predecessor or from an earlier N. The proof
/// is in the README.
///
/// A partition's share ends with its ownership and begins with the first window that starts at least
/// `max_clock_offset` after it was gained.
///
/// Time     Given times and labels must not fall; see Limiter, which sees to it.
/// Threads  One at a time.
class ShareHistory {
 public:
  ShareHistory(const Plan& plan, const Timing& timing, WallTime now);

  /// Takes over a new plan, in force from `now`. False: nothing has changed.
  bool Learn(const Plan& plan, WallTime now);

  /// The permits of window `w` that are this worker's, as far as is known. Forgets what no longer counts from `w` on.
  [[nodiscard]] std::int64_t CapAt(Label w);

  /// No label in (`after`, result) has a share as far as is known; the result itself may turn out to have none while a
  /// change settles. nullopt: no share until the plan changes.
  [[nodiscard]] std::optional<Label> NextOpen(Label after);

  /// Share in `w` by the newest plan alone.
  [[nodiscard]] std::int64_t NewestShare(Label w);

  [[nodiscard]] const Plan& plan() const { return plan_; }

 private:
  /// One thing until label `from`, another from it on.
  template <typename T>
  struct Scheduled {
    T now;
    std::optional<Label> from = std::nullopt;
    T then = {};
    [[nodiscard]] const T& At(Label w) const { return from && w >= *from ? then : now; }
    [[nodiscard]] const T& Last() const { return from ? then : now; }
    bool operator==(const Scheduled&) const = default;
  };
  struct PastRate {
    Scheduled<MaxRate> rate;
    WallTime until;         // counts for windows that start before
    bool for_next = false;  // others may have it until what is to come begins
  };
  struct Table {  // partitions in their order of dealing, without ownership
    struct Topic {
      std::uint32_t partitions = 0;
      std::vector<std::uint32_t> first;  // slot of its first partition in each round of dealing; weight of them
      bool operator==(const Topic&) const = default;
    };
    std::map<std::string, Topic> topics;
    std::uint32_t slots = 0;
    bool operator==(const Table&) const = default;
  };
  struct NoShare {
    bool operator==(const NoShare&) const = default;
  };
  using Kind = std::variant<NoShare, SlotDealing, Table>;
  struct Dealing {
    Scheduled<Kind> kind;
    WallTime until{};
    bool for_next = false;
    Hand hand = {};
    Hand then = {};
    [[nodiscard]] const Hand& HandAt(Label w) const { return kind.from && w >= *kind.from ? then : hand; }
  };
  using Partition = std::pair<std::string, std::uint32_t>;

  static const Scheduled<MaxRate>& ValueOf(const PastRate& past) { return past.rate; }
  static const Scheduled<Kind>& ValueOf(const Dealing& past) { return past.kind; }
  static bool DealsAnything(const MaxRate&) { return true; }
  static bool DealsAnything(const Kind& kind);
  static Kind KindOf(const Plan::Dealing& dealing);
  static Scheduled<Kind> KindOf(const Plan& plan);
  static Scheduled<MaxRate> RateOf(const Plan& plan);
  void KeepWhatOthersMayHave(const Plan& plan, WallTime now);
  [[nodiscard]] Nanoseconds HoldOf(const Scheduled<Kind>& old, const Scheduled<Kind>& kind) const;
  void TakeOwnership(const Plan& plan, WallTime now);
  void Refresh(Label w);
  [[nodiscard]] Hand HandOf(const Kind& kind, Label w) const;
  void TakeHands(Dealing& dealing, Label w) const;
  [[nodiscard]] std::optional<Label> NextByNewest(Label from) const;

  Timing timing_;
  Plan plan_;
  Scheduled<MaxRate> rate_;
  std::vector<PastRate> past_rates_;
  std::vector<Dealing> past_dealings_;
  Dealing dealing_;
  std::map<Partition, Label> owned_;  // first label of each
  bool hands_stale_ = true;
  std::optional<Label> next_begin_;  // smallest first label not yet in the hands
};

}  // namespace posthorn::ratelimit
