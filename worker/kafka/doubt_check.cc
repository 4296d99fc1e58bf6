#include "worker/kafka/doubt_check.h"

#include <algorithm>

namespace posthorn::kafka {
namespace {

constexpr std::chrono::milliseconds kAskAgain{200};  // the coordinator

}  // namespace

bool DoubtCheck::Serve(const std::function<std::string()>& member_id, const std::function<bool()>& lost) {
  if (!guard_.joined() || guard_.clear()) {
    check_.reset();
    return false;
  }
  const Time now = std::chrono::steady_clock::now();
  if (!check_ || check_->doubt != guard_.doubt()) {
    const bool cannot_be_asked = silent_ || (check_ && check_->quiet_since);
    check_ = Check{guard_.doubt(), now, false, cannot_be_asked ? std::optional(now) : std::nullopt};
  }
  if (check_->quiet_since) return now - *check_->quiet_since >= 2 * heartbeat_ && guard_.Settle(check_->doubt);
  GroupView group;
  const auto answer = question_.Take(group);
  if (answer == GroupQuestion::Answer::kCannotBeAsked) {
    check_->quiet_since = now;
    return false;
  }
  // An answer to a question from before this doubt says nothing.
  if (answer != GroupQuestion::Answer::kNone && check_->asked) {
    const bool member = std::any_of(group.members.begin(), group.members.end(),
                                    [id = member_id()](const auto& one) { return one.id == id; });
    if (group.stable && member) return !lost() && guard_.Settle(check_->doubt);
    check_->asked = false;
    check_->ask_at = now + kAskAgain;
    return false;
  }
  if (check_->asked || now < check_->ask_at) return false;
  check_->asked = question_.Ask();
  if (!check_->asked) check_->ask_at = now + kAskAgain;
  return false;
}

}  // namespace posthorn::kafka
