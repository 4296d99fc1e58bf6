#pragma once

#include <algorithm>
#include <optional>

#include "worker/delivery/dispatcher.h"

namespace posthorn::admin {

/// Messages of a partition that are not finished, the unread ones included: log end minus the offset below which
/// everything is finished. nullopt while the log end is not known. Compacted and transactional topics have gaps, which
/// count.
inline std::optional<delivery::Offset> LagOf(const delivery::Dispatcher::LaneView& lane) {
  if (lane.log_end < 0) return std::nullopt;
  return std::max<delivery::Offset>(0, lane.log_end - lane.next);
}

}  // namespace posthorn::admin
