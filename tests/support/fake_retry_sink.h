#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_feed.h"
#include "worker/delivery/retry_sink.h"

namespace posthorn::test {

/// A retry topic in memory that answers at once, or when the test says so. Threads: the one that drives the shards.
class FakeRetrySink final : public delivery::RetrySink {
 public:
  enum class Mode { kWrite, kFail, kHold };
  struct Held {
    std::int32_t partition;
    FakeLog::Entry entry;
    std::function<void(std::optional<delivery::Offset>)> done;
  };

  explicit FakeRetrySink(std::string topic) : topic_(std::move(topic)) {}

  [[nodiscard]] const std::string& topic() const override { return topic_; }
  void Prepare() override { ++prepared; }
  void Write(std::int32_t partition, delivery::RecordPtr record, const delivery::RetryState& state,
             std::function<void(std::optional<delivery::Offset>)> done) override {
    FakeLog::Entry entry;
    entry.value = std::string(record->value().value_or(""));
    if (record->key()) entry.key = std::string(*record->key());
    entry.headers = delivery::EncodeRetryHeaders(state, record->headers());
    states.push_back(state);
    held.push_back({partition, std::move(entry), std::move(done)});
    if (mode == Mode::kHold) return;
    Answer(mode == Mode::kWrite, mode == Mode::kWrite);
  }
  void OnIgnored(const delivery::TopicPartition&, delivery::Offset, delivery::RetryFault fault) override {
    ignored.push_back(fault);
  }

  /// Ends the oldest write held. One that is `written` may look as if it were not.
  void Answer(bool written, bool acknowledged) {
    auto [partition, entry, done] = std::move(held.front());
    held.erase(held.begin());
    std::optional<delivery::Offset> at;
    if (written) at = append(partition, std::move(entry));
    done(acknowledged ? at : std::nullopt);
  }

  Mode mode = Mode::kWrite;
  std::function<delivery::Offset(std::int32_t partition, FakeLog::Entry entry)> append;  // to the partition's log
  std::vector<delivery::RetryState> states;  // of everything that was to be written
  std::vector<Held> held;
  int prepared = 0;
  std::vector<delivery::RetryFault> ignored;

 private:
  const std::string topic_;
};

}  // namespace posthorn::test
