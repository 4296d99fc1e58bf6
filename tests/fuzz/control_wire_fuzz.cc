// Records of the control topics: refused, or what is read survives being written again.
#include "tests/support/control_wire_fuzz.h"

#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  posthorn::test::FuzzControlRecord(data, size);
  return 0;
}
