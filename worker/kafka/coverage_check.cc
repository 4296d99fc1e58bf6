#include "worker/kafka/coverage_check.h"

#include <algorithm>
#include <set>

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;

// A member that gives partitions up drains for longer than the one, and a rebalance is over in less than two of them.
constexpr auto kSettling = 12s;
constexpr auto kRegularly = 60s;
constexpr int kMine = 2;
constexpr int kOthers = 4;

}  // namespace

void CoverageCheck::Changed(Time now) {
  ask_at_ = now + kSettling;
  asked_ = false;
  seen_ = 0;
}

std::size_t CoverageCheck::Serve(Time now, const Counts& counts, const std::function<std::string()>& member_id) {
  if (!asked_) {
    if (now < ask_at_ || counts.empty()) return 0;
    asked_ = question_.Ask();
    ask_at_ = now + kSettling;
    return 0;
  }
  GroupView group;
  const auto answer = question_.Take(group);
  if (answer == GroupQuestion::Answer::kNone) {
    if (now >= ask_at_) asked_ = false;  // whoever settled a doubt meanwhile has had it
    return 0;
  }
  asked_ = false;
  std::set<delivery::TopicPartition> owned;
  for (const auto& member : group.members) owned.insert(member.owned.begin(), member.owned.end());
  std::size_t unowned = 0;
  for (const auto& [topic, partitions] : counts)
    for (std::int32_t number = 0; number < partitions; ++number) unowned += owned.contains({topic, number}) ? 0 : 1;
  if (answer != GroupQuestion::Answer::kGroup || !group.stable || unowned == 0) {
    seen_ = 0;
    ask_at_ = now + (group.stable ? kRegularly : kSettling);
    return 0;
  }
  ask_at_ = now + kSettling;
  const auto first = std::min_element(group.members.begin(), group.members.end(),
                                      [](const auto& a, const auto& b) { return a.id < b.id; });
  if (++seen_ < (first->id == member_id() ? kMine : kOthers)) return 0;
  Changed(now);
  return unowned;
}

}  // namespace posthorn::kafka
