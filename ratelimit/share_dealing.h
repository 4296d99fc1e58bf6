#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::ratelimit {

/// A worker's part of every window, when the permits are dealt like cards.
///
/// The permits of a limit are numbered along its line (MaxRate::CumulativeAt); permit c goes to slot c mod N. Who holds
/// slots knows its part of any window without asking anybody, all slots together make exactly MaxRate::Total, and over
/// time every slot gets the same, also when a window has fewer permits than there are slots, or none.
/// A slot is an instance (slot k of N) or a partition (then a worker holds several).
///
/// Threads  A value; const members from any thread.
/// Cost     Logarithmic in the number of slots held, whatever the rate.
class Hand {
 public:
  Hand() = default;  // holds nothing

  /// The slots `held` of `slots`. Those not below `slots` are left out; order and repetition do not matter.
  Hand(std::uint32_t slots, std::vector<std::uint32_t> held);

  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] const std::vector<std::uint32_t>& held() const { return held_; }

  /// Permits of window `w` dealt to the slots held.
  [[nodiscard]] std::int64_t Share(const MaxRate& rate, Label w) const;

  /// The part of Share that does not depend on where on the line the window lies: floor(Total(w) / N) for each slot
  /// held.
  [[nodiscard]] std::int64_t EvenShare(const MaxRate& rate, Label w) const;

  /// The first label >= `from` in which Share is above 0; nullopt when there is none.
  [[nodiscard]] std::optional<Label> NextLabel(const MaxRate& rate, Label from) const;

 private:
  // Slots held in [0, end).
  [[nodiscard]] std::int64_t HeldBelow(std::uint32_t end) const;

  std::uint32_t slots_ = 0;
  std::vector<std::uint32_t> held_;  // sorted
};

}  // namespace posthorn::ratelimit
