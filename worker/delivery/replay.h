#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/delivery/commit_state.h"

namespace posthorn::delivery {

/// The name under which an OffsetStore keeps replay requests, one per partition, beside the subscriptions' positions:
/// Kafka has them as the offsets of the group `<fleet>.@replay`. No subscription can have it.
inline constexpr std::string_view kReplaySlots = "@replay";

/// "Deliver again what lies in [from, to) of this partition", for a fleet that goes on running.
struct ReplayRequest {
  std::string id;  // of who asks; one that was carried out is not carried out again
  std::string subscription;
  Offset from = 0;
  std::optional<Offset> to;   // unset: everything from `from` on
  std::int64_t until_ms = 0;  // of the wall clock; not taken up later
  bool operator==(const ReplayRequest&) const = default;
};

/// What became of a request on one partition.
struct ReplayOutcome {
  Offset before = 0;        // position when it was taken up
  Offset after = 0;         // and from which it went on
  std::uint64_t again = 0;  // offsets that were finished and are not any more; with gaps in the log fewer messages
  std::string refused;      // why nothing was done; empty: it was done
  bool operator==(const ReplayOutcome&) const = default;
};

/// What stands in a partition's slot: a request, and its outcome once there is one.
struct ReplaySlot {
  ReplayRequest request;
  std::optional<ReplayOutcome> outcome;
  bool operator==(const ReplaySlot&) const = default;
};

/// As printable text, for the metadata of an offset.
[[nodiscard]] std::string EncodeReplaySlot(const ReplaySlot& slot);
/// Unset for everything EncodeReplaySlot did not write: such a slot is free. Errors   Never throws, whatever the text.
[[nodiscard]] std::optional<ReplaySlot> DecodeReplaySlot(std::string_view text);

/// Where a subscription goes on that has to deliver [from, to) again: what it had finished of that is not finished any
/// more, the rest of what it knew stays (an unfinished message keeps its attempts and its TTL).
struct Rewound {
  Offset next = 0;
  CommitState known;
  std::uint64_t again = 0;  // as in ReplayOutcome; 0: nothing below `next` was asked for, and nothing has changed
};
[[nodiscard]] Rewound RewindTo(Offset next, CommitState known, Offset from, std::optional<Offset> to);

}  // namespace posthorn::delivery
