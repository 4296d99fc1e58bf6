#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/delivery/dead_letter_sink.h"

namespace posthorn::kafka {

/// RFC 3339, UTC, milliseconds: 2026-11-21T08:15:30.042Z.
std::string FormatTime(runtime::WallTime time);

using HeaderList = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// Headers of a dead letter: the record's own, in order, then those of Posthorn. A record that was a dead letter before
/// does not keep what Posthorn said then.
HeaderList DeadLetterHeaders(const delivery::DeadLetter& letter);

}  // namespace posthorn::kafka
