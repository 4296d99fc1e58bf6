#pragma once

#include <cstdint>
#include <string_view>

namespace posthorn::delivery {

/// FNV-1a, mixed at the end so that its low bits may be used: the same in every build, for what several workers or
/// versions must agree on.
[[nodiscard]] constexpr std::uint64_t StableHash(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  hash = (hash ^ (hash >> 32)) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace posthorn::delivery
