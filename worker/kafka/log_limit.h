#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace posthorn::kafka {

/// Says which of many like events is worth a log line: the first of its kind, then one per interval.
///
/// Threads  One.
class LogLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LogLimit(std::chrono::milliseconds interval) : interval_(interval) {}

  /// Number of events of this kind kept silent since its last line, when this one is worth a line.
  std::optional<std::uint64_t> Admit(int kind, Time now) {
    auto& entry = kinds_[kind];
    if (entry.next && now < *entry.next) {
      ++entry.silent;
      return std::nullopt;
    }
    entry.next = now + interval_;
    return std::exchange(entry.silent, 0);
  }

 private:
  struct Entry {
    std::optional<Time> next;
    std::uint64_t silent = 0;
  };
  std::chrono::milliseconds interval_;
  std::map<int, Entry> kinds_;
};

}  // namespace posthorn::kafka
