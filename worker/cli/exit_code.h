#pragma once

namespace posthorn::cli {

/// What commands end with; scripts may rely on it, and --help says so.
constexpr int kDone = 0;
constexpr int kCannot = 1;
constexpr int kUsage = 2;

}  // namespace posthorn::cli
