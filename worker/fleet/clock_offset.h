#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "worker/runtime/clock.h"

namespace posthorn::fleet {

/// How far this worker's clock is from those of the control cluster's brokers, as far as it can be known.
///
/// A record that was sent at s, stored at b by the broker's clock and known to be stored at k says that this clock is
/// ahead of the broker's by s - b at least (a millisecond less: b is cut off) and by k - b at most. Of the last
/// kSamples of a partition the narrowest one counts; of the partitions, which are with different brokers, the median. A
/// sample that cannot be true together with an earlier one says that a clock was set: only what comes from then
/// on counts.
///
/// Units    Nanoseconds; above 0: this worker's clock is ahead.
/// Threads  One at a time.
class ClockOffset {
 public:
  static constexpr std::size_t kSamples = 8;

  struct Bounds {
    runtime::Nanoseconds least{0};
    runtime::Nanoseconds most{0};
    [[nodiscard]] runtime::Nanoseconds middle() const { return least + (most - least) / 2; }
  };

  void Add(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored, runtime::WallTime known);

  /// nullopt: nothing measured.
  [[nodiscard]] std::optional<Bounds> Estimate() const;
  /// Whether the clocks differ by more than `most` for certain. Nothing measured: no.
  [[nodiscard]] bool Beyond(runtime::Nanoseconds most) const;

 private:
  struct Partition {
    std::array<Bounds, kSamples> samples;
    std::size_t next = 0;
    std::size_t known = 0;
  };
  std::map<std::int32_t, Partition> partitions_;
};

}  // namespace posthorn::fleet
