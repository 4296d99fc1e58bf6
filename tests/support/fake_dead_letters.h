#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "worker/delivery/dead_letter_sink.h"

namespace posthorn::test {

/// A dead-letter sink that answers at once, or when the test says so. Threads: the one that drives the shard.
class FakeDeadLetters final : public delivery::DeadLetterSink {
 public:
  enum class Mode { kWrite, kFail, kHold };

  void Write(delivery::DeadLetter letter, std::function<void(bool)> done) override {
    ++asked;
    if (mode == Mode::kHold) {
      held.emplace_back(std::move(letter), std::move(done));
      return;
    }
    if (mode == Mode::kWrite) Written(std::move(letter));
    done(mode == Mode::kWrite);
  }
  /// Answers the oldest one held.
  void Answer(bool ok) {
    auto [letter, done] = std::move(held.front());
    held.erase(held.begin());
    if (ok) Written(std::move(letter));
    done(ok);
  }

  Mode mode = Mode::kWrite;
  std::vector<delivery::DeadLetter> written;
  std::vector<std::pair<delivery::DeadLetter, std::function<void(bool)>>> held;
  std::size_t asked = 0;
  bool keep = true;  // in `written`
  std::function<void(const delivery::DeadLetter&)> on_written;

 private:
  void Written(delivery::DeadLetter letter) {
    if (on_written) on_written(letter);
    if (keep) written.push_back(std::move(letter));
  }
};

}  // namespace posthorn::test
