#include "worker/delivery/stats.h"

#include "worker/delivery/dead_letter_sink.h"

namespace posthorn::delivery {

bool SubscriptionShared::NoteError(std::string_view text, runtime::WallTime at, std::uint64_t* suppressed) {
  const std::lock_guard lock(mutex_);
  last_error_.text.assign(text);
  last_error_.at = at;
  const auto label = ratelimit::LabelAt(at);
  if (label != log_label_) {
    log_label_ = label;
    logged_ = 0;
  }
  if (logged_ >= kLogLines) {
    ++suppressed_;
    return false;
  }
  ++logged_;
  *suppressed = suppressed_;
  suppressed_ = 0;
  return true;
}

SubscriptionShared::LastError SubscriptionShared::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

const char* ToString(DeadLetterReason reason) {
  switch (reason) {
    case DeadLetterReason::kExpired:
      return "expired";
    case DeadLetterReason::kAttempts:
      return "attempts";
    case DeadLetterReason::kRejected:
      return "rejected";
    case DeadLetterReason::kGone:
      return "gone";
    case DeadLetterReason::kTooLarge:
      return "too-large";
    case DeadLetterReason::kFilteredError:
      return "filtered-error";
  }
  return "unknown";
}

std::optional<DeadLetterReason> DeadLetterReasonOf(std::string_view text) {
  using enum DeadLetterReason;
  for (const auto reason : {kExpired, kAttempts, kRejected, kGone, kTooLarge, kFilteredError}) {
    if (text == ToString(reason)) return reason;
  }
  return std::nullopt;
}

}  // namespace posthorn::delivery
