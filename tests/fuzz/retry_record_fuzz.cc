// Headers of a record in the retry topic: refused, or what is read survives being written again.
#include "tests/support/retry_record_fuzz.h"

#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  posthorn::test::FuzzRetryHeaders(data, size);
  return 0;
}
