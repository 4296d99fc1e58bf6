#pragma once

#include <cstdint>
#include <string_view>

namespace posthorn::fleet {

/// What carries the control plane's records. Either may lose them, and be late with them.
///
/// Threads  Any; never waits.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  /// To whoever coordinates the partition; not necessarily in order.
  virtual void Report(std::int32_t partition, std::string_view bytes) = 0;
  /// To the partition's log, which everybody reads in the same order.
  virtual void Append(std::int32_t partition, std::string_view bytes) = 0;
  /// Whether this process wants partitions to coordinate.
  virtual void SetCandidate(bool candidate) = 0;
};

}  // namespace posthorn::fleet
