#pragma once

// Private to this room.

#include <vector>

#include "worker/delivery/record.h"
#include "worker/kafka/handle.h"

namespace posthorn::kafka {

/// A message as a record of our own. `scratch` only saves allocations.
delivery::RecordPtr CopyRecord(const rd_kafka_message_t& message, std::vector<delivery::HeaderView>& scratch);

}  // namespace posthorn::kafka
