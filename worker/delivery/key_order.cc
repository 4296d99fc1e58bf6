#include "worker/delivery/key_order.h"

#include <cassert>

#include "worker/delivery/lane.h"

namespace posthorn::delivery {

Delivery* KeyOrder::Enter(Delivery& delivery) {
  const auto line = lines_.try_emplace(*delivery.order_key).first;
  Insert(line->second, delivery);
  return Next(line);
}

Delivery* KeyOrder::Again(Delivery& delivery) {
  const auto line = lines_.find(*delivery.order_key);
  assert(line != lines_.end() && line->second.out > 0);
  Insert(line->second, delivery);
  --line->second.out;
  return Next(line);
}

Delivery* KeyOrder::Leave(const Delivery& delivery) {
  const auto line = lines_.find(*delivery.order_key);
  assert(line != lines_.end() && line->second.out > 0);
  --line->second.out;
  return Next(line);
}

void KeyOrder::NoteOut(const Delivery& delivery) { ++lines_[*delivery.order_key].out; }

void KeyOrder::Insert(Line& line, Delivery& delivery) {
  const auto offset = delivery.record->offset();
  if (line.last == nullptr || line.last->record->offset() < offset) {
    delivery.behind = nullptr;
    (line.last == nullptr ? line.first : line.last->behind) = &delivery;
    line.last = &delivery;
    return;
  }
  Delivery** at = &line.first;
  while ((*at)->record->offset() < offset) at = &(*at)->behind;
  delivery.behind = *at;
  *at = &delivery;
}

Delivery* KeyOrder::Next(Lines::iterator line) {
  auto& [first, last, out] = line->second;
  if (out > 0) return nullptr;
  if (first == nullptr) {
    lines_.erase(line);
    return nullptr;
  }
  Delivery* next = first;
  first = next->behind;
  if (first == nullptr) last = nullptr;
  next->behind = nullptr;
  out = 1;
  return next;
}

}  // namespace posthorn::delivery
