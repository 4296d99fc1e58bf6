#pragma once

#include <cstdint>

namespace posthorn::admin {

/// What the kernel says about this process. A value that cannot be read is negative.
struct ProcessStats {
  double resident_bytes = -1;
  double virtual_bytes = -1;
  double open_fds = -1;
  double max_fds = -1;
  double threads = -1;
  double cpu_seconds = -1;
  double start_time_seconds = -1;  // since 1970
};

/// Reads /proc. Cost: about 30 us, plus the open descriptors.
[[nodiscard]] ProcessStats ReadProcessStats();

}  // namespace posthorn::admin
