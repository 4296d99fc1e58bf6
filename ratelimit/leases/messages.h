#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::ratelimit {

struct StateBytes;  // friend of the state machines here: the tests that explore every state read it as bytes

/// One process of a worker, or of a coordinator. Drawn at random (64 bits) when the process starts and never used
/// again: a restarted worker is somebody else and holds nothing.
using Incarnation = std::uint64_t;

/// No lease is longer than this many windows.
inline constexpr int kLongestLease = 64;

/// Order of the grants of a limit: by the coordinator's epoch, then by its own count. {0, 0} is before every grant.
struct GrantId {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  auto operator<=>(const GrantId&) const = default;
};

/// What the configuration says of one limit. A lower revision is older and is ignored wherever it turns up late.
struct Terms {
  /// What holds instead from label `from` on, told beforehand.
  struct Next {
    Label from = 0;
    MaxRate rate;
    std::uint32_t slots = 0;
    bool operator==(const Next&) const = default;
  };

  MaxRate rate;
  std::uint32_t slots = 0;  // instances by number, for the fallback; 0: there is none
  std::uint64_t revision = 0;
  std::optional<Next> next = std::nullopt;

  [[nodiscard]] const MaxRate& RateAt(Label w) const { return next && w >= next->from ? next->rate : rate; }
  [[nodiscard]] std::uint32_t SlotsAt(Label w) const { return next && w >= next->from ? next->slots : slots; }
  [[nodiscard]] std::int64_t Total(Label w) const { return RateAt(w).Total(w); }
  /// The same in every label from `w` on, whatever the revision.
  [[nodiscard]] bool SameFrom(Label w, const Terms& other) const {
    const auto later = [w](const Terms& of) { return of.next && of.next->from > w ? of.next : std::nullopt; };
    return RateAt(w) == other.RateAt(w) && SlotsAt(w) == other.SlotsAt(w) && later(*this) == later(other);
  }
  bool operator==(const Terms&) const = default;
};

/// What a share that was planned for terms `planned` is worth by terms `known` with a lower total: in proportion (W5).
/// Terms no newer than `planned` say nothing about it.
[[nodiscard]] inline std::int64_t CutShare(std::int64_t share, const Terms& planned, const Terms& known, Label w) {
  if (known.revision <= planned.revision) return share;
  const std::int64_t total = known.Total(w);
  const std::int64_t granted = planned.Total(w);
  return total < granted ? static_cast<std::int64_t>(Wide{share} * total / granted) : share;
}

/// Coordinator to worker, through the log: replaces all that the worker was granted before under this limit.
struct Grant {
  std::string limit;
  Incarnation to = 0;
  GrantId id;
  Label first = 0;
  std::vector<std::int64_t> shares;  // of the labels first, first + 1, ...; at most kLongestLease
  Terms terms;                       // those it was planned for

  [[nodiscard]] Label end() const { return first + static_cast<Label>(shares.size()); }
  [[nodiscard]] bool Covers(Label w) const { return w >= first && w < end(); }
  /// 0 for a label it does not cover.
  [[nodiscard]] std::int64_t ShareAt(Label w) const {
    return Covers(w) ? shares[static_cast<std::size_t>(w - first)] : 0;
  }
  bool operator==(const Grant&) const = default;
};

/// A coordinator's claim to the log. From the first claim of a number on, grants of smaller numbers are void: the order
/// of the log is the fence, whatever a superseded coordinator still writes.
struct Epoch {
  std::uint64_t number = 0;
  Incarnation owner = 0;
  bool renewal = false;  // repeated by the owner in every window, so that any tail of the log tells who owns it
  bool operator==(const Epoch&) const = default;
};

/// What a coordinator appends to the log.
using ControlRecord = std::variant<Epoch, Grant>;

/// A process that runs in slot k of the limit's slots, and from when on it does what with the slot's share.
struct SlotClaim {
  std::uint32_t slot = 0;
  Label alone_from = 0;     // no earlier process of the slot uses this label or a later one
  Label fallback_from = 0;  // the process itself uses the slot's share in no earlier label
  bool operator==(const SlotClaim&) const = default;
};

/// A worker's word on one limit: what it holds (the ack), what it may still use, and what it could use.
struct LimitReport {
  std::string limit;
  GrantId held;
  Label label = 0;               // the newest window this worker has counted in
  std::int64_t committed = 0;    // permits of `label` used, or still usable by what it holds: never less than used
  std::int64_t demand = 0;       // attempts it could start in the next window
  std::int64_t used_before = 0;  // in label - 1; for display
  std::uint64_t revision = 0;    // of the terms it goes by; for display
  bool starved = false;          // wants to send now and has nothing left; counts as urgent
  bool leaving = false;          // the process stops and uses nothing any more beyond `committed`
  bool operator==(const LimitReport&) const = default;
};

/// Worker to coordinator: may be lost, repeated, late and out of order.
struct Report {
  Incarnation from = 0;
  std::optional<SlotClaim> claim;
  std::vector<LimitReport> limits;
  bool operator==(const Report&) const = default;
};

}  // namespace posthorn::ratelimit
