#pragma once

#include <cstdint>

#include "config/model.h"
#include "worker/runtime/clock.h"

namespace posthorn::delivery {

/// How long to wait after attempt `attempt_number` (from 1) has failed: initial * multiplier^(attempt_number - 1), at
/// most `max`. With full jitter a random part of that, never less than a tenth of it; `random` is uniform in [0, 1).
/// Pure; never overflows.
[[nodiscard]] runtime::Nanoseconds BackoffFor(const config::Backoff& policy, std::uint32_t attempt_number,
                                              double random);

}  // namespace posthorn::delivery
