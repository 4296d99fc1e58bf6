#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/offset_store.h"
#include "worker/delivery/replay.h"

namespace posthorn::cli {

/// Has replay requests carried out, one per partition: by the workers, through the slots, or in the stored positions
/// when there is no worker.
///
/// A slot that holds another's request is waited for. A request that got no answer in time is taken back, so that it
/// does not surprise a fleet that starts later.
/// Threads  One.
class ReplayErrand {
 public:
  using Outcomes = std::map<delivery::TopicPartition, delivery::ReplayOutcome>;
  struct Parts {
    delivery::OffsetStore* offsets = nullptr;
    /// How many members the fleet's group has; unset and `*why` when that is not known now.
    std::function<std::optional<std::size_t>(std::string* why)> members;
    /// Between two looks at the slots: Kafka tells nobody of a changed offset.
    std::function<void()> pause;
  };
  explicit ReplayErrand(Parts parts) : parts_(std::move(parts)) {}

  /// Outcomes of all requests that were answered; what is missing has an entry in `problems`. Blocks up to `patience`
  /// and what Kafka's answers take. All requests have one id and subscription.
  [[nodiscard]] Outcomes Run(const std::map<delivery::TopicPartition, delivery::ReplayRequest>& requests,
                             std::chrono::milliseconds patience, std::vector<std::string>& problems);

 private:
  using Slots = std::map<delivery::TopicPartition, std::optional<delivery::ReplaySlot>>;
  [[nodiscard]] std::optional<Slots> Read() const;
  void Look(const Slots& slots, std::int64_t now_ms);
  bool Write(const std::map<delivery::TopicPartition, delivery::ReplaySlot>& slots);
  void TakeBack(const std::string& why);
  void MovePositions(std::vector<std::string>& problems);

  Parts parts_;
  std::map<delivery::TopicPartition, delivery::ReplayRequest> left_;  // without an outcome
  std::map<delivery::TopicPartition, std::string> held_by_;           // slots with another's request
  std::map<delivery::TopicPartition, bool> asked_;
  Outcomes outcomes_;
};

}  // namespace posthorn::cli
