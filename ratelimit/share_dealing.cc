#include "ratelimit/share_dealing.h"

#include <algorithm>
#include <utility>

namespace posthorn::ratelimit {
namespace {

std::uint32_t SlotOf(Wide permit, std::uint32_t slots) {
  return static_cast<std::uint32_t>(permit - FloorDiv(permit, slots) * slots);
}

}  // namespace

Hand::Hand(std::uint32_t slots, std::vector<std::uint32_t> held) : slots_(slots), held_(std::move(held)) {
  std::erase_if(held_, [slots](std::uint32_t k) { return k >= slots; });
  std::sort(held_.begin(), held_.end());
  held_.erase(std::unique(held_.begin(), held_.end()), held_.end());
}

std::int64_t Hand::HeldBelow(std::uint32_t end) const {
  return std::lower_bound(held_.begin(), held_.end(), end) - held_.begin();
}

std::int64_t Hand::Share(const MaxRate& rate, Label w) const {
  if (held_.empty()) return 0;
  const Wide first = rate.CumulativeAt(w);
  const auto total = static_cast<std::int64_t>(rate.CumulativeAt(w + 1) - first);
  const auto count = static_cast<std::int64_t>(held_.size());
  const std::int64_t rounds = total / slots_;
  const auto rest = static_cast<std::uint32_t>(total % slots_);
  // The rest goes to the `rest` slots after the one that `first` falls on, around the table.
  const std::uint32_t begin = SlotOf(first, slots_);
  const std::uint64_t end = std::uint64_t{begin} + rest;
  std::int64_t extra = 0;
  if (end <= slots_) {
    extra = HeldBelow(static_cast<std::uint32_t>(end)) - HeldBelow(begin);
  } else {
    extra = count - HeldBelow(begin) + HeldBelow(static_cast<std::uint32_t>(end - slots_));
  }
  return rounds * count + extra;
}

std::int64_t Hand::EvenShare(const MaxRate& rate, Label w) const {
  if (held_.empty()) return 0;
  return rate.Total(w) / slots_ * static_cast<std::int64_t>(held_.size());
}

std::optional<Label> Hand::NextLabel(const MaxRate& rate, Label from) const {
  if (held_.empty() || rate.IsZero()) return std::nullopt;
  const Wide first = rate.CumulativeAt(from);
  const std::uint32_t begin = SlotOf(first, slots_);
  const auto next = std::lower_bound(held_.begin(), held_.end(), begin);
  const std::uint32_t distance = next != held_.end() ? *next - begin : slots_ - begin + held_.front();
  return rate.FirstLabelReaching(first + distance + 1) - 1;  // the window that holds permit first + distance
}

}  // namespace posthorn::ratelimit
