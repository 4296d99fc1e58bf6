#include "ratelimit/share_history.h"

#include <algorithm>

namespace posthorn::ratelimit {
namespace {

Label FirstLabelFrom(WallTime t) {
  const Label w = LabelAt(t);
  return StartOf(w) == t ? w : w + 1;
}

}  // namespace

ShareHistory::ShareHistory(const Plan& plan, const Timing& timing, WallTime now)
    : timing_(timing), plan_(plan), dealing_{KindOf(plan), {}} {
  past_dealings_.push_back({NoShare{}, {}, now + std::max(timing.settle, timing.max_clock_offset)});
  TakeOwnership(plan, now);
}

ShareHistory::Kind ShareHistory::KindOf(const Plan& plan) {
  if (const auto* slot = std::get_if<SlotDealing>(&plan.dealing)) return *slot;
  Table table;
  const auto& topics = std::get<PartitionDealing>(plan.dealing).topics;
  std::map<std::string, std::uint32_t> left;
  for (const auto& topic : topics) {
    table.topics[topic.name].partitions = topic.partitions;
    if (topic.weight > 0) left[topic.name] = topic.weight;
  }
  // Round after round, as long as a topic has slots left: a partition's slots lie apart, and a low rate reaches all.
  while (!left.empty()) {
    for (auto entry = left.begin(); entry != left.end();) {
      auto& topic = table.topics[entry->first];
      topic.first.push_back(table.slots);
      table.slots += topic.partitions;
      entry = --entry->second == 0 ? left.erase(entry) : std::next(entry);
    }
  }
  return table;
}

void ShareHistory::TakeOwnership(const Plan& plan, WallTime now) {
  hands_stale_ = true;
  const auto* partitions = std::get_if<PartitionDealing>(&plan.dealing);
  if (partitions == nullptr) {
    owned_.clear();
    return;
  }
  const Label gained = FirstLabelFrom(now + timing_.max_clock_offset);
  std::map<Partition, Label> owned;
  for (const auto& topic : partitions->topics) {
    for (const auto number : topic.owned) {
      const auto before = owned_.find({topic.name, number});
      owned[{topic.name, number}] = before != owned_.end() ? before->second : gained;
    }
  }
  owned_ = std::move(owned);
}

bool ShareHistory::Learn(const Plan& plan, WallTime now) {
  if (plan == plan_) return false;
  if (plan.rate != plan_.rate) past_rates_.push_back({plan_.rate, now + timing_.settle});
  auto kind = KindOf(plan);
  if (kind != dealing_.kind) {
    const auto* old_table = std::get_if<Table>(&dealing_.kind);
    const bool resized = old_table != nullptr && std::holds_alternative<Table>(kind);
    const auto hold = resized ? timing_.session_timeout + timing_.max_clock_offset : timing_.settle;
    // A table without slots dealt nothing to anybody: there is nothing to keep clear of.
    if (old_table == nullptr || old_table->slots > 0) past_dealings_.push_back({dealing_.kind, {}, now + hold});
    dealing_.kind = std::move(kind);
  }
  plan_ = plan;
  TakeOwnership(plan, now);
  return true;
}

Hand ShareHistory::HandOf(const Kind& kind, Label w) const {
  if (const auto* slot = std::get_if<SlotDealing>(&kind)) return {slot->instances, {slot->slot}};
  const auto* table = std::get_if<Table>(&kind);
  if (table == nullptr) return {};
  std::vector<std::uint32_t> held;
  for (const auto& [partition, begin] : owned_) {
    if (begin > w) continue;
    const auto topic = table->topics.find(partition.first);
    if (topic == table->topics.end() || partition.second >= topic->second.partitions) continue;
    for (const auto first : topic->second.first) held.push_back(first + partition.second);
  }
  return {table->slots, std::move(held)};
}

void ShareHistory::Refresh(Label w) {
  std::erase_if(past_rates_, [w](const PastRate& r) { return r.until <= StartOf(w); });
  std::erase_if(past_dealings_, [w](const Dealing& d) { return d.until <= StartOf(w); });
  if (!hands_stale_ && !(next_begin_ && *next_begin_ <= w)) return;
  dealing_.hand = HandOf(dealing_.kind, w);
  for (auto& dealing : past_dealings_) dealing.hand = HandOf(dealing.kind, w);
  hands_stale_ = false;
  next_begin_.reset();
  for (const auto& [partition, begin] : owned_) {
    if (begin > w && (!next_begin_ || begin < *next_begin_)) next_begin_ = begin;
  }
}

std::int64_t ShareHistory::CapAt(Label w) {
  Refresh(w);
  const auto by = [&](const Dealing& dealing) {
    std::int64_t share = dealing.hand.Share(plan_.rate, w);
    for (const auto& past : past_rates_) share = std::min(share, dealing.hand.Share(past.rate, w));
    return past_rates_.empty() ? share : std::max(share, dealing.hand.EvenShare(plan_.rate, w));
  };
  std::int64_t cap = by(dealing_);
  for (const auto& past : past_dealings_) cap = std::min(cap, by(past));
  return cap;
}

std::int64_t ShareHistory::NewestShare(Label w) { return dealing_.hand.Share(plan_.rate, w); }

std::optional<Label> ShareHistory::NextOpen(Label after) {
  Label from = after + 1;
  for (const auto& past : past_dealings_) {
    if (std::holds_alternative<NoShare>(past.kind)) from = std::max(from, FirstLabelFrom(past.until));
  }
  auto next = dealing_.hand.NextLabel(plan_.rate, from);
  if (next_begin_) {
    // Partitions gained but not begun: their labels are found when they have begun, at the first of them.
    const Label begun = std::max(from, *next_begin_);
    if (!plan_.rate.IsZero()) next = next ? std::min(*next, begun) : begun;
  }
  return next;
}

}  // namespace posthorn::ratelimit
