#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace posthorn::test {

/// Ends the process, which is how a fuzzer learns of a fault.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace posthorn::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
