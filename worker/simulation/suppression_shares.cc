#include "worker/simulation/suppression_shares.h"

#include <algorithm>
#include <utility>

namespace posthorn::simulation {

using ratelimit::LabelAt;
using ratelimit::baselines::AblySuppression;

SuppressionShares::SuppressionShares(const Scenario& scenario, Random& random, WallTime begin)
    : scenario_(scenario),
      random_(random),
      network_(scenario.network),
      master_(scenario.max_rate.PerSecond(), begin),
      senders_(scenario.workers.size()) {}

void SuppressionShares::Start(std::size_t i, WallTime now) {
  Sender& sender = senders_[i] = Sender();
  sender.running = true;
  sender.told = now;
  sender.next_tell = now + random_.In(Nanoseconds(0), AblySuppression::kTell);
}

void SuppressionShares::Stop(std::size_t i, bool /*graceful*/, WallTime /*now*/) { senders_[i].running = false; }

void SuppressionShares::SetMaxRate(const MaxRate& rate, WallTime now) {
  limit_known_ = std::max(limit_known_, now + random_.In(Nanoseconds(0), scenario_.config_delay));
  mail_.Post(limit_known_, NewLimit{rate.PerSecond()});
}

void SuppressionShares::Post(Letter letter, WallTime now) {
  if (random_.Chance(network_.loss)) return;
  mail_.Post(now + DelayOf(network_, random_), std::move(letter));
}

void SuppressionShares::Open(const NewLimit& letter, WallTime /*now*/) { master_.SetLimit(letter.limit); }

void SuppressionShares::Open(const Offered& letter, WallTime now) {
  master_.Count(letter.messages, letter.since, letter.until);
  Post(NewFraction{letter.from, master_.Fraction(now)}, now);
}

void SuppressionShares::Open(const NewFraction& letter, WallTime /*now*/) {
  senders_[letter.to].fraction = letter.fraction;
}

void SuppressionShares::Advance(WallTime now) {
  mail_.DeliverUntil(now, [this](const Letter& letter, WallTime due) {
    std::visit([&](const auto& opened) { Open(opened, due); }, letter);
  });
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    Sender& sender = senders_[i];
    if (!sender.running || now < sender.next_tell) continue;
    if (now > sender.told) {
      const double seconds = std::chrono::duration<double>(now - sender.told).count();
      sender.offered_rate = static_cast<double>(sender.offered) / seconds;
    }
    Post(Offered{i, sender.offered, sender.told, now}, now);
    sender.offered = 0;
    sender.told = now;
    sender.next_tell += AblySuppression::kTell;
  }
}

Started SuppressionShares::Take(std::size_t i, const Load& load, WallTime now) {
  Sender& sender = senders_[i];
  Started started;
  started.label = LabelAt(now);
  while (started.sent < load.room && started.sent + started.rejected < load.backlog) {
    if (random_.Chance(sender.fraction)) {
      ++started.rejected;
    } else {
      ++started.sent;
    }
  }
  sender.offered += started.sent + started.rejected;
  return started;
}

double SuppressionShares::Share(std::size_t i, WallTime /*now*/) {
  return senders_[i].running ? senders_[i].offered_rate * (1 - senders_[i].fraction) : 0;
}

}  // namespace posthorn::simulation
