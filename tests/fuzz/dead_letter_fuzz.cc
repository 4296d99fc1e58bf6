// Headers of a dead letter as `posthorn dead-letters` reads them: refused, or what is read survives being written
// again.
#include "tests/support/dead_letter_fuzz.h"

#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  posthorn::test::FuzzDeadLetterHeaders(data, size);
  return 0;
}
