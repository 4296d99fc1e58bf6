#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <vector>

#include "worker/delivery/record.h"

namespace posthorn::delivery {

/// Which messages of a lane are finished, and up to where everything is.
///
/// Tickets are handed out in offset order and finished in any order. `next()` is the position to commit: everything
/// below it is finished (or does not exist: compaction and transactions leave gaps).
/// Threads  One. Cost: O(1) amortised per message.
class OffsetTracker {
 public:
  using Ticket = std::uint64_t;

  explicit OffsetTracker(Offset next) : next_(next) {}

  /// The message at `offset` is being worked on. Offsets ascend.
  Ticket Start(Offset offset) {
    assert(offset >= next_);
    entries_.push_back({offset, offset + 1, false, false});
    next_ = offset + 1;
    return first_ticket_ + entries_.size() - 1;
  }
  /// The next message needs no work, whoever reads it. Costs nothing, whatever lies before.
  void Skip(Offset offset) { next_ = offset + 1; }
  /// Everything in `range` was finished before; none of it is started. One entry, however many messages it is.
  void SkipFinished(OffsetRange range) {
    assert(range.first < range.end && range.first >= next_);
    next_ = range.end;
    if (!entries_.empty()) entries_.push_back({range.first, range.end, true, true});
  }
  /// `through`: the subscriber took it, or said that it will not. Finishing twice is a broken invariant. Returns how
  /// many positions the commit point moved over.
  std::size_t Finish(Ticket ticket, bool through = false) {
    assert(ticket >= first_ticket_ && ticket - first_ticket_ < entries_.size());
    auto& entry = entries_[static_cast<std::size_t>(ticket - first_ticket_)];
    assert(!entry.finished);
    entry.finished = true;
    entry.through = through;
    std::size_t moved = 0;
    while (!entries_.empty() && entries_.front().finished) {
      entries_.pop_front();
      ++first_ticket_;
      ++moved;
    }
    return moved;
  }
  /// Position to commit.
  [[nodiscard]] Offset next() const { return entries_.empty() ? next_ : entries_.front().offset; }
  [[nodiscard]] std::size_t unfinished_span() const { return entries_.size(); }
  /// Calls `visit(ticket, through)` for the messages from the newest down to the oldest unfinished one.
  template <typename Visit>
  void FromNewest(Visit visit) const {
    for (std::size_t i = entries_.size(); i > 0; --i) visit(first_ticket_ + i - 1, entries_[i - 1].through);
  }
  /// What is finished above next(), ascending. Between two messages of a range lies nothing else. Cost: the span.
  [[nodiscard]] std::vector<OffsetRange> FinishedAhead() const {
    std::vector<OffsetRange> ranges;
    bool open = false;
    for (const auto& entry : entries_) {
      if (entry.finished && !open) ranges.push_back({entry.offset, entry.offset});
      open = entry.finished;
      if (open) ranges.back().end = entry.end;
    }
    return ranges;
  }

 private:
  struct Entry {
    Offset offset;
    Offset end;  // the first offset behind it
    bool finished;
    bool through;
  };
  Offset next_;  // behind the newest one
  Ticket first_ticket_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace posthorn::delivery
