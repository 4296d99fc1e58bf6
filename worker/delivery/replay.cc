#include "worker/delivery/replay.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

namespace posthorn::delivery {
namespace {

// Words separated by single spaces:
//   ph-replay1 ID SUBSCRIPTION FROM TO|- UNTIL asked
//   ph-replay1 ID SUBSCRIPTION FROM TO|- UNTIL done BEFORE AFTER AGAIN
//   ph-replay1 ID SUBSCRIPTION FROM TO|- UNTIL refused WHY, IN WORDS
constexpr std::string_view kFormat = "ph-replay1";
constexpr std::size_t kLongest = 1024;

std::string Printable(std::string_view text) {
  std::string clean(text.substr(0, 256));
  for (auto& c : clean) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return clean;
}

class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool AtEnd() const { return ok_ && done_; }

  std::string_view Next() {
    if (!ok_ || done_) return Fail();
    const auto space = left_.find(' ');
    const auto word = left_.substr(0, space);
    done_ = space == std::string_view::npos;
    left_ = done_ ? std::string_view() : left_.substr(space + 1);
    return word.empty() ? Fail() : word;
  }
  template <typename Number>
  Number NextNumber() {
    return Parse<Number>(Next());
  }
  /// `-` is none.
  std::optional<Offset> NextOffset() {
    const auto word = Next();
    return word == "-" ? std::nullopt : std::optional(Parse<Offset>(word));
  }
  std::string_view Rest() {
    done_ = true;
    return left_;
  }

 private:
  template <typename Number>
  Number Parse(std::string_view word) {
    Number number{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < Number{}) {
      Fail();
      return {};
    }
    return number;
  }
  std::string_view Fail() {
    ok_ = false;
    return {};
  }
  std::string_view left_;
  bool done_ = false;
  bool ok_ = true;
};

}  // namespace

std::string EncodeReplaySlot(const ReplaySlot& slot) {
  const auto& request = slot.request;
  std::string text = std::string(kFormat) + ' ' + request.id + ' ' + request.subscription + ' ' +
                     std::to_string(request.from) + ' ' + (request.to ? std::to_string(*request.to) : "-") + ' ' +
                     std::to_string(request.until_ms);
  if (!slot.outcome) return text + " asked";
  const auto& outcome = *slot.outcome;
  if (!outcome.refused.empty()) return text + " refused " + Printable(outcome.refused);
  return text + " done " + std::to_string(outcome.before) + ' ' + std::to_string(outcome.after) + ' ' +
         std::to_string(outcome.again);
}

std::optional<ReplaySlot> DecodeReplaySlot(std::string_view text) {
  if (text.size() > kLongest) return std::nullopt;
  Words words(text);
  if (words.Next() != kFormat) return std::nullopt;
  ReplaySlot slot;
  slot.request.id = words.Next();
  slot.request.subscription = words.Next();
  slot.request.from = words.NextNumber<Offset>();
  slot.request.to = words.NextOffset();
  slot.request.until_ms = words.NextNumber<std::int64_t>();
  const auto state = words.Next();
  if (state == "done") {
    auto& outcome = slot.outcome.emplace();
    outcome.before = words.NextNumber<Offset>();
    outcome.after = words.NextNumber<Offset>();
    outcome.again = words.NextNumber<std::uint64_t>();
  } else if (state == "refused") {
    slot.outcome.emplace().refused = words.Rest();
    if (slot.outcome->refused.empty()) return std::nullopt;
  } else if (state != "asked") {
    return std::nullopt;
  }
  if (!words.AtEnd()) return std::nullopt;
  return slot;
}

Rewound RewindTo(Offset next, CommitState known, Offset from, std::optional<Offset> to) {
  if (from >= next || (to && *to <= from)) return {next, std::move(known), 0};
  const Offset end = to.value_or(std::numeric_limits<Offset>::max());
  Rewound result{from, std::move(known), static_cast<std::uint64_t>(std::min(end, next) - from)};
  std::vector<OffsetRange> finished;
  if (end < next) finished.push_back({end, next});
  for (auto run : result.known.finished) {
    const auto first = std::max(run.first, end);
    result.again += static_cast<std::uint64_t>(std::max<Offset>(0, std::min(run.end, end) - run.first));
    if (first >= run.end) continue;
    if (!finished.empty() && finished.back().end == first) {
      finished.back().end = run.end;
    } else {
      finished.push_back({first, run.end});
    }
  }
  result.known.finished = std::move(finished);
  return result;
}

}  // namespace posthorn::delivery
