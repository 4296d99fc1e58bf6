#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "testing.h"
#include "tests/support/histories.h"

// A fleet under test: real Limiters, each with its own clock, driven by a random history; and the book that holds them
// to the promise. Time is a number here, so that ten thousand histories take seconds.
namespace posthorn::ratelimit::testing {

/// Every permit anybody got, and the rates somebody went by, for each label.
class Book {
 public:
  void Took(Label w) { ++pages_[w].used; }
  void WentBy(Label w, const MaxRate& rate) {
    auto& rates = pages_[w].rates;
    if (std::find(rates.begin(), rates.end(), rate) == rates.end()) rates.push_back(rate);
  }
  /// nullopt: in every label at most the highest total that somebody went by in it.
  [[nodiscard]] std::optional<std::string> Violation() const {
    for (const auto& [w, page] : pages_) {
      std::int64_t most = 0;
      for (const auto& rate : page.rates) most = std::max(most, rate.Total(w));
      if (page.used > most) {
        std::ostringstream out;
        out << "label " << w - kFirst << ": " << page.used << " permits of " << most;
        return out.str();
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::int64_t Used(Label w) const {
    const auto page = pages_.find(w);
    return page == pages_.end() ? 0 : page->second.used;
  }

 private:
  struct Page {
    std::int64_t used = 0;
    std::vector<MaxRate> rates;
  };
  std::map<Label, Page> pages_;
};

/// One process of a worker, from its start to its kill.
class Process {
 public:
  Process(Book& book, const Plan& plan, const Timing& timing, Nanoseconds offset, Nanoseconds now)
      : book_(book), offset_(offset), plan_(plan), limiter_(plan, {timing, 0}, At(now + offset)) {}

  [[nodiscard]] const Plan& plan() const { return plan_; }

  void Learn(const Plan& plan, Nanoseconds now) {
    Note(now);
    plan_ = plan;
    limiter_.SetPlan(plan, At(now + offset_));
    Note(now);
  }

  /// Tries for `most` permits; `late`: how long ago the caller has read its clock.
  void Take(Nanoseconds now, std::int64_t most, Nanoseconds late = Nanoseconds(0)) {
    Note(now - late);
    Note(now);
    const WallTime wall = At(now + offset_ - late);
    for (; most > 0; --most) {
      const auto decision = limiter_.Acquire(wall, seconds(1));
      const auto* admitted = std::get_if<Admitted>(&decision);
      if (admitted == nullptr) return;
      book_.Took(admitted->label);
    }
  }

  /// A permit that was taken long ago, right before its request.
  void Renew(Nanoseconds now) {
    Note(now);
    const Label before = LabelAt(At(now + offset_)) - 1;
    const auto label = limiter_.Renew(At(now + offset_), before);
    if (label && *label != before) book_.Took(*label);
  }

 private:
  void Note(Nanoseconds now) {
    const Label w = LabelAt(At(now + offset_));
    book_.WentBy(w, plan_.RateAt(w));
  }

  Book& book_;
  Nanoseconds offset_;
  Plan plan_;
  Limiter limiter_;
};

/// Histories of the large runs.
inline constexpr int kMany = test::Histories(6'000, 600);

struct Outcome {
  int histories = 0;
  int broken = 0;
  std::string first;  // of the broken ones
};

/// Runs `history(random)` for `count` seeds from `seed` on; each returns what broke, or nothing.
template <typename History>
Outcome RunHistories(std::uint64_t seed, int count, History&& history) {
  Outcome outcome;
  for (int i = 0; i < count; ++i, ++outcome.histories) {
    Random random(seed + static_cast<std::uint64_t>(i));
    const std::optional<std::string> broken = history(random);
    if (!broken) continue;
    if (outcome.broken++ == 0)
      outcome.first = "seed " + std::to_string(seed + static_cast<std::uint64_t>(i)) + ", " + *broken;
  }
  return outcome;
}

}  // namespace posthorn::ratelimit::testing
