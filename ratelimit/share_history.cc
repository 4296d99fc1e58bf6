#include "ratelimit/share_history.h"

#include <algorithm>
#include <type_traits>

namespace posthorn::ratelimit {
namespace {

Label FirstLabelFrom(WallTime t) {
  const Label w = LabelAt(t);
  return StartOf(w) == t ? w : w + 1;
}

}  // namespace

ShareHistory::ShareHistory(const Plan& plan, const Timing& timing, WallTime now)
    : timing_(timing), plan_(plan), rate_(RateOf(plan)), dealing_{KindOf(plan)} {
  past_dealings_.push_back({{NoShare{}}, now + std::max(timing.settle, timing.max_clock_offset)});
  TakeOwnership(plan, now);
}

ShareHistory::Scheduled<MaxRate> ShareHistory::RateOf(const Plan& plan) {
  if (!plan.next) return {plan.rate};
  return {plan.rate, plan.next->from, plan.next->rate};
}

ShareHistory::Scheduled<ShareHistory::Kind> ShareHistory::KindOf(const Plan& plan) {
  if (!plan.next) return {KindOf(plan.dealing)};
  return {KindOf(plan.dealing), plan.next->from, KindOf(plan.next->dealing)};
}

ShareHistory::Kind ShareHistory::KindOf(const Plan::Dealing& dealing) {
  if (const auto* slot = std::get_if<SlotDealing>(&dealing)) return *slot;
  Table table;
  const auto& topics = std::get<PartitionDealing>(dealing).topics;
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
  const Label gained = FirstLabelFrom(now + timing_.max_clock_offset);
  std::map<Partition, Label> owned;
  const auto take = [&](const Plan::Dealing& dealing) {
    const auto* partitions = std::get_if<PartitionDealing>(&dealing);
    if (partitions == nullptr) return;
    for (const auto& topic : partitions->topics) {
      for (const auto number : topic.owned) {
        const auto before = owned_.find({topic.name, number});
        owned[{topic.name, number}] = before != owned_.end() ? before->second : gained;
      }
    }
  };
  take(plan.dealing);
  if (plan.next) take(plan.next->dealing);
  owned_ = std::move(owned);
}

// A table without slots dealt nothing to anybody: there is nothing to keep clear of.
bool ShareHistory::DealsAnything(const Kind& kind) {
  const auto* table = std::get_if<Table>(&kind);
  return table == nullptr || table->slots > 0;
}

// How long after a change somebody may still go by the old dealing.
Nanoseconds ShareHistory::HoldOf(const Scheduled<Kind>& old, const Scheduled<Kind>& kind) const {
  const auto resized = [](const Kind& a, const Kind& b) {
    return std::holds_alternative<Table>(a) && std::holds_alternative<Table>(b) && a != b;
  };
  const bool any = resized(old.now, kind.now) || resized(old.Last(), kind.Last());
  return any ? timing_.session_timeout + timing_.max_clock_offset : timing_.settle;
}

// Where what is to come replaces something that was to come or has just begun here, others may have begun it or not:
// both what was before it and what it says may be in force until the new one begins. `plan` is not in force yet.
void ShareHistory::KeepWhatOthersMayHave(const Plan& plan, WallTime now) {
  const auto rate = RateOf(plan);
  const auto kind = KindOf(plan);
  if (rate.from == rate_.from && rate.then == rate_.then && kind.then == dealing_.kind.then) return;
  const auto keep = [&](auto& past, const auto& newest, const auto& next) {
    std::vector<std::decay_t<decltype(newest.now)>> values;
    for (auto& each : past) {
      const auto& value = ValueOf(each);
      // Those that have begun and still count say what was before them.
      if (each.for_next || (value.from && *value.from <= LabelAt(now))) values.push_back(value.now);
      if (each.for_next) each.until = std::min(each.until, now + timing_.settle);
      each.for_next = false;
    }
    if (!next.from) return;
    const bool called_off = newest.from && *newest.from < *next.from;
    if (called_off && StartOf(*newest.from) <= now + timing_.settle) values.push_back(newest.then);
    for (const auto& value : values) {
      if (DealsAnything(value)) past.push_back({{value, next.from, next.then}, StartOf(*next.from), true});
    }
  };
  keep(past_rates_, rate_, rate);
  keep(past_dealings_, dealing_.kind, kind);
}

bool ShareHistory::Learn(const Plan& plan, WallTime now) {
  if (plan == plan_) return false;
  KeepWhatOthersMayHave(plan, now);
  if (auto rate = RateOf(plan); rate != rate_) {
    past_rates_.push_back({rate_, now + timing_.settle});
    rate_ = rate;
  }
  if (auto kind = KindOf(plan); kind != dealing_.kind) {
    if (DealsAnything(dealing_.kind.now) || DealsAnything(dealing_.kind.Last())) {
      past_dealings_.push_back({dealing_.kind, now + HoldOf(dealing_.kind, kind)});
    }
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

void ShareHistory::TakeHands(Dealing& dealing, Label w) const {
  dealing.hand = HandOf(dealing.kind.now, w);
  if (dealing.kind.from) dealing.then = HandOf(dealing.kind.then, w);
}

void ShareHistory::Refresh(Label w) {
  std::erase_if(past_rates_, [w](const PastRate& r) { return r.until <= StartOf(w); });
  std::erase_if(past_dealings_, [w](const Dealing& d) { return d.until <= StartOf(w); });
  if (!hands_stale_ && !(next_begin_ && *next_begin_ <= w)) return;
  TakeHands(dealing_, w);
  for (auto& dealing : past_dealings_) TakeHands(dealing, w);
  hands_stale_ = false;
  next_begin_.reset();
  for (const auto& [partition, begin] : owned_) {
    if (begin > w && (!next_begin_ || begin < *next_begin_)) next_begin_ = begin;
  }
}

std::int64_t ShareHistory::CapAt(Label w) {
  Refresh(w);
  const auto by = [&](const Dealing& dealing) {
    const Hand& hand = dealing.HandAt(w);
    std::int64_t share = hand.Share(rate_.At(w), w);
    for (const auto& past : past_rates_) share = std::min(share, hand.Share(past.rate.At(w), w));
    return past_rates_.empty() ? share : std::max(share, hand.EvenShare(rate_.At(w), w));
  };
  std::int64_t cap = by(dealing_);
  for (const auto& past : past_dealings_) cap = std::min(cap, by(past));
  return cap;
}

std::int64_t ShareHistory::NewestShare(Label w) { return dealing_.HandAt(w).Share(rate_.At(w), w); }

std::optional<Label> ShareHistory::NextByNewest(Label from) const {
  const auto change = rate_.from;
  const auto next = dealing_.HandAt(from).NextLabel(rate_.At(from), from);
  if (!change || from >= *change || (next && *next < *change)) return next;
  return dealing_.then.NextLabel(rate_.then, *change);
}

std::optional<Label> ShareHistory::NextOpen(Label after) {
  Label from = after + 1;
  for (const auto& past : past_dealings_) {
    if (std::holds_alternative<NoShare>(past.kind.now)) from = std::max(from, FirstLabelFrom(past.until));
  }
  auto next = NextByNewest(from);
  if (next_begin_) {
    // Partitions gained but not begun: their labels are found when they have begun, at the first of them.
    const Label begun = std::max(from, *next_begin_);
    if (!rate_.At(begun).IsZero()) next = next ? std::min(*next, begun) : begun;
  }
  return next;
}

}  // namespace posthorn::ratelimit
