#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// How far a subscription has come in its partition of the retry topic, as it is stored.
struct RetryProgress {
  Offset next = 0;                    // everything below is finished
  std::vector<OffsetRange> finished;  // above next, ascending
  Offset end = 0;                     // of the partition
  [[nodiscard]] bool Past(Offset offset) const;
};

/// The keys of a lane that have messages in the retry topic: until those are finished, later messages of such a key
/// must follow them there.
///
/// A key is a hash of 64 bits. To whoever owns the lane next it goes as one of kSlots slots, which the keys share: an
/// unrelated key of a slot then takes the same way for a while, which harms nothing.
/// Memory   One table entry per key.
/// Threads  One.
class ParkedKeys {
 public:
  static constexpr std::size_t kSlots = 4096;
  struct Handover {
    std::vector<std::uint16_t> slots;  // ascending
    Offset last = 0;                   // in the retry topic: all their messages are at or below
    bool operator==(const Handover&) const = default;
  };
  ParkedKeys() = default;
  explicit ParkedKeys(const Handover& handover);

  /// A message of `key` is in the retry topic at `offset`.
  void Add(std::string_view key, Offset offset);
  [[nodiscard]] bool Holds(std::string_view key) const;
  /// Forgets the keys whose messages are finished there. True when there were any.
  bool Release(const RetryProgress& progress);
  [[nodiscard]] bool empty() const { return keys_.empty() && slots_.empty(); }
  [[nodiscard]] Handover ForNextOwner() const;

 private:
  std::unordered_map<std::uint64_t, Offset> keys_;   // the last message of each
  std::unordered_map<std::uint16_t, Offset> slots_;  // taken over
};

}  // namespace posthorn::delivery
