#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// The messages of one partition between its feed and its lanes: every lane reads the same ones, each with a cursor of
/// its own. Sequence numbers count messages as they were read; they go on over a rewind.
/// Threads  One.
class PartitionRing {
 public:
  using Sequence = std::uint64_t;

  void Push(RecordPtr record) { records_.push_back(std::move(record)); }
  /// Forgets everything unread, before the feed is sent back to an older offset. Cursors at end() stay valid.
  void Clear() {
    first_ += records_.size();
    records_.clear();
  }
  /// Drops what every cursor has passed.
  void TrimBefore(Sequence sequence) {
    while (first_ < sequence && !records_.empty()) {
      records_.pop_front();
      ++first_;
    }
  }
  [[nodiscard]] const RecordPtr* At(Sequence sequence) const {
    return sequence >= first_ && sequence - first_ < records_.size()
               ? &records_[static_cast<std::size_t>(sequence - first_)]
               : nullptr;
  }
  /// The first message at `offset` or beyond, end() when there is none.
  [[nodiscard]] Sequence Find(Offset offset) const {
    const auto at = std::lower_bound(records_.begin(), records_.end(), offset,
                                     [](const RecordPtr& record, Offset o) { return record->offset() < o; });
    return first_ + static_cast<Sequence>(at - records_.begin());
  }
  [[nodiscard]] Sequence begin() const { return first_; }
  [[nodiscard]] Sequence end() const { return first_ + records_.size(); }
  [[nodiscard]] bool empty() const { return records_.empty(); }

 private:
  Sequence first_ = 0;
  std::deque<RecordPtr> records_;
};

}  // namespace posthorn::delivery
