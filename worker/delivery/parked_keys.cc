#include "worker/delivery/parked_keys.h"

#include <algorithm>

#include "worker/delivery/stable_hash.h"

namespace posthorn::delivery {
namespace {

std::uint16_t SlotOf(std::uint64_t hash) { return static_cast<std::uint16_t>(hash % ParkedKeys::kSlots); }

}  // namespace

bool RetryProgress::Past(Offset offset) const {
  // Beyond the end: the topic was made anew, what was there is gone.
  if (offset < next || offset >= end) return true;
  const auto behind = std::upper_bound(finished.begin(), finished.end(), offset,
                                       [](Offset at, const OffsetRange& range) { return at < range.first; });
  return behind != finished.begin() && offset < std::prev(behind)->end;
}

ParkedKeys::ParkedKeys(const Handover& handover) {
  for (const auto slot : handover.slots) slots_[slot] = handover.last;
}

void ParkedKeys::Add(std::string_view key, Offset offset) {
  auto& last = keys_[StableHash(key)];
  last = std::max(last, offset);
}

bool ParkedKeys::Holds(std::string_view key) const {
  if (empty()) return false;
  const auto hash = StableHash(key);
  return keys_.count(hash) != 0 || slots_.count(SlotOf(hash)) != 0;
}

bool ParkedKeys::Release(const RetryProgress& progress) {
  const auto keys = std::erase_if(keys_, [&](const auto& key) { return progress.Past(key.second); });
  // Several keys share a slot: that its last message is finished says nothing of the others.
  const auto slots = std::erase_if(
      slots_, [&](const auto& slot) { return slot.second < progress.next || slot.second >= progress.end; });
  return keys + slots > 0;
}

ParkedKeys::Handover ParkedKeys::ForNextOwner() const {
  Handover handover;
  for (const auto& [slot, last] : slots_) {
    handover.slots.push_back(slot);
    handover.last = std::max(handover.last, last);
  }
  for (const auto& [hash, last] : keys_) {
    handover.slots.push_back(SlotOf(hash));
    handover.last = std::max(handover.last, last);
  }
  std::sort(handover.slots.begin(), handover.slots.end());
  handover.slots.erase(std::unique(handover.slots.begin(), handover.slots.end()), handover.slots.end());
  return handover;
}

}  // namespace posthorn::delivery
