// Commit metadata that somebody stored: never trusted, and what is accepted is in order.
#include "tests/fuzz/require.h"
#include "tests/support/commit_state_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  posthorn::test::FuzzCommitState(data, size);
  return 0;
}
