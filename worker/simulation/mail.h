#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "worker/simulation/random.h"
#include "worker/simulation/scenario.h"

namespace posthorn::simulation {

/// What is due at a time: in the order of time, and of posting where times are the same.
template <typename Letter>
class Mail {
 public:
  void Post(WallTime due, Letter letter) { letters_.emplace(std::pair(due, posted_++), std::move(letter)); }

  /// Gives everything that is due by `now` to `open(letter, due)`, also what is posted meanwhile.
  template <typename Open>
  void DeliverUntil(WallTime now, const Open& open) {
    while (!letters_.empty() && letters_.begin()->first.first <= now) {
      const auto next = letters_.extract(letters_.begin());
      open(next.mapped(), next.key().first);
    }
  }

 private:
  std::map<std::pair<WallTime, std::uint64_t>, Letter> letters_;
  std::uint64_t posted_ = 0;
};

/// How long the next message takes.
inline Nanoseconds DelayOf(const Network& network, Random& random) {
  return random.In(network.delay, network.delay_most);
}

}  // namespace posthorn::simulation
