#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace posthorn::delivery {

/// Numbers in as few bytes as they need: 7 bits a byte, the lowest first; signed ones zigzag.
inline void AppendNumber(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  bytes += static_cast<char>(value);
}
inline void AppendSigned(std::string& bytes, std::int64_t value) {
  AppendNumber(bytes, (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

/// Reads such numbers off the front of bytes that need not be right. After a fault everything reads as 0 and nothing is
/// left; `ok` is looked at in the end.
class NumberReader {
 public:
  explicit NumberReader(std::string_view bytes) : left_(bytes) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool AtEnd() const { return left_.empty(); }
  [[nodiscard]] std::string_view left() const { return left_; }

  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return Fail();
      const auto byte = static_cast<std::uint8_t>(left_.front());
      left_.remove_prefix(1);
      if (shift == 63 && byte > 1) return Fail();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }
  std::int64_t Signed() {
    const auto value = Number();
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1U) + 1));
  }
  /// So many bytes as they are.
  std::string_view Bytes(std::uint64_t n) {
    if (n > left_.size()) {
      Fail();
      return {};
    }
    const auto bytes = left_.substr(0, static_cast<std::size_t>(n));
    left_.remove_prefix(bytes.size());
    return bytes;
  }
  std::uint64_t Fail() {
    ok_ = false;
    left_ = {};
    return 0;
  }

 private:
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace posthorn::delivery
