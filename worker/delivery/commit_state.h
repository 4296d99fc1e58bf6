#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "worker/delivery/parked_keys.h"
#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// What is known of a lane's messages from its position on, so that whoever goes on there neither delivers the finished
/// ones again nor starts the others anew. Travels with the position as its commit metadata.
struct CommitState {
  struct Tried {
    Offset offset = 0;
    std::uint32_t attempts = 0;      // made, with an outcome
    std::int64_t first_seen_ms = 0;  // when it could first have been tried
    std::int64_t due_ms = 0;         // not to be tried before; in the past when it may be tried at once
    bool operator==(const Tried&) const = default;
  };
  std::vector<OffsetRange> finished;  // ascending, not touching one another
  std::vector<Tried> tried;           // unfinished ones, ascending
  ParkedKeys::Handover parked = {};   // keys that go on in the retry topic; always fits
  [[nodiscard]] bool empty() const { return finished.empty() && tried.empty() && parked.slots.empty(); }
  bool operator==(const CommitState&) const = default;
};

inline constexpr std::size_t kMaxCommitMetadata = 4096;  // characters, the default bound of Kafka's brokers

/// The state as printable text: `ph1:` and base64 of the parked keys and the finished ones (each as runs or as a
/// bitmap, whichever is shorter), the tried ones, and a checksum over them and over `next`. Empty for an empty state.
///
/// What does not fit is left out, never the parked keys: tried ones first, in both cases those farthest ahead, but for
/// one very long run of finished ones (a replay leaves it behind its end).
/// Units    Times are milliseconds of the wall clock since 1970, brought into the range from there to the year 2200.
/// Errors   None; `state` must be ascending and not below `next`.
/// Cost     Linear in the state; microseconds for 10 000 messages.
[[nodiscard]] std::string EncodeCommitState(Offset next, const CommitState& state);

enum class CommitStateFault : std::uint8_t { kForeign, kOtherVersion, kDamaged };
const char* ToString(CommitStateFault fault);

/// Reads what EncodeCommitState wrote for the same `next`; of anything else it says what is wrong with it. Metadata
/// that was left behind at another position is damaged. Empty metadata is an empty state. Errors   Never throws,
/// whatever the text.
[[nodiscard]] std::variant<CommitState, CommitStateFault> DecodeCommitState(Offset next, std::string_view metadata);

/// The last step of encoding: checksum, base64, prefix. Apart so that tests reach what stands behind the checksum.
[[nodiscard]] std::string SealCommitState(Offset next, std::string_view payload);

}  // namespace posthorn::delivery
