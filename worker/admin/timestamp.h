#pragma once

#include <string>

#include "worker/runtime/clock.h"

namespace posthorn::admin {

/// UTC with milliseconds: 2026-11-21T10:57:23.042Z.
[[nodiscard]] std::string Rfc3339(runtime::WallTime time);

}  // namespace posthorn::admin
