#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace posthorn::delivery {

class Delivery;

/// Of the messages of one key one is out (waiting for its time or its permit, in flight, becoming a dead letter) until
/// it is finished; the others stand behind it by offset. Delivery::order_key says the key; those without one never come
/// here.
///
/// A key is a hash of 64 bits: two keys that share one wait for each other.
/// Memory   One table entry per key with unfinished messages, whatever the length of the key; the messages behind are
///          chained through themselves.
/// Threads  One.
/// Cost     O(1) for messages that come by offset.
class KeyOrder {
 public:
  using Key = std::uint64_t;
  [[nodiscard]] static Key Of(std::string_view key) { return std::hash<std::string_view>{}(key); }

  // Each returns the message of that key which may go out now and counts as out from then on; null when there is none.

  /// `delivery` joins those behind.
  [[nodiscard]] Delivery* Enter(Delivery& delivery);
  /// `delivery` was out and joins them again: it is not finished.
  [[nodiscard]] Delivery* Again(Delivery& delivery);
  /// `delivery` was out and is finished.
  [[nodiscard]] Delivery* Leave(const Delivery& delivery);

  /// `delivery` is out already; several of one key may be, after the order has changed.
  void NoteOut(const Delivery& delivery);
  void Clear() { lines_.clear(); }
  [[nodiscard]] std::size_t keys() const { return lines_.size(); }

 private:
  struct Line {
    Delivery* first = nullptr;  // of those behind, by offset
    Delivery* last = nullptr;
    std::uint32_t out = 0;
  };
  using Lines = std::unordered_map<Key, Line>;
  static void Insert(Line& line, Delivery& delivery);
  [[nodiscard]] Delivery* Next(Lines::iterator line);

  Lines lines_;
};

}  // namespace posthorn::delivery
