#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "worker/delivery/commit_state.h"

namespace posthorn::test {

/// One input of a fuzzer (LLVMFuzzerTestOneInput's signature but for the result): as metadata somebody stored, and as a
/// payload whose checksum is right. What is accepted must be in order and must survive being written again. Ends the
/// process otherwise.
inline void FuzzCommitState(const std::uint8_t* data, std::size_t size) {
  using delivery::CommitState;
  using delivery::Offset;
  const std::string bytes(data, data + size);
  const Offset next = size == 0 ? 0 : Offset{data[0]} << (data[size - 1] % 56U);
  const auto require = [](bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "commit state: %s\n", what);
    std::abort();
  };
  for (const auto& metadata : {bytes, "ph1:" + bytes, delivery::SealCommitState(next, bytes)}) {
    const auto decoded = delivery::DecodeCommitState(next, metadata);
    const auto* state = std::get_if<CommitState>(&decoded);
    if (state == nullptr) continue;
    Offset at = next;
    bool touching = false;
    for (const auto& run : state->finished) {
      require(run.first >= at && !(touching && run.first == at) && run.end > run.first, "finished ones out of order");
      at = run.end;
      touching = true;
    }
    at = next;
    for (const auto& tried : state->tried) {
      require(&tried == &state->tried.front() ? tried.offset >= at : tried.offset > at, "tried ones out of order");
      require(tried.first_seen_ms >= 0 && tried.due_ms >= 0, "a time before 1970");
      at = tried.offset;
    }
    if (metadata.size() > delivery::kMaxCommitMetadata) require(false, "longer than the bound");
    const auto written = delivery::EncodeCommitState(next, *state);
    require(written.size() <= metadata.size(), "longer when written again");
    const auto again = delivery::DecodeCommitState(next, written);
    require(std::holds_alternative<CommitState>(again) && std::get<CommitState>(again) == *state,
            "another when written again");
  }
}

}  // namespace posthorn::test
