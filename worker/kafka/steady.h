#pragma once

// Private to this room: the clock that its deadlines go by.

#include <chrono>

namespace posthorn::kafka {

using Time = std::chrono::steady_clock::time_point;

inline Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace posthorn::kafka
