#include "worker/cli/replay_errand.h"

#include <future>
#include <memory>
#include <utility>
#include <variant>

namespace posthorn::cli {
namespace {

using delivery::OffsetStore;
using delivery::ReplayOutcome;
using delivery::ReplayRequest;
using delivery::ReplaySlot;
using delivery::TopicPartition;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kKafkaAnswer{5000};  // of Kafka
constexpr int kLooksPerCount = 4;           // of the group's members

OffsetStore::Key SlotOf(const TopicPartition& partition) { return {std::string(delivery::kReplaySlots), partition}; }

bool FlushNow(OffsetStore& offsets, const std::vector<OffsetStore::Key>& keys) {
  auto stored = std::make_shared<std::promise<bool>>();
  auto future = stored->get_future();
  offsets.Flush(keys, [stored](bool written) { stored->set_value(written); });
  const bool written = future.wait_for(kKafkaAnswer) == std::future_status::ready && future.get();
  offsets.Drop(keys);
  return written;
}

std::string Name(const TopicPartition& partition) {
  return partition.topic + "/" + std::to_string(partition.partition);
}

}  // namespace

ReplayErrand::Outcomes ReplayErrand::Run(const std::map<TopicPartition, ReplayRequest>& requests, milliseconds patience,
                                         std::vector<std::string>& problems) {
  left_ = requests;
  const auto deadline = Steady::now() + patience;
  std::string kafka_problem;
  for (int look = 0; !left_.empty(); ++look) {
    if (look % kLooksPerCount == 0) {
      kafka_problem.clear();
      if (parts_.members(&kafka_problem) == std::size_t{0}) {
        MovePositions(problems);
        return std::move(outcomes_);
      }
    }
    if (const auto slots = Read()) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      Look(*slots, std::chrono::duration_cast<milliseconds>(now).count());
    } else {
      kafka_problem = "Kafka does not answer";
    }
    if (left_.empty()) break;
    if (Steady::now() >= deadline) {
      TakeBack("taken back: no worker has answered in time");
      for (const auto& [partition, request] : left_) {
        const auto held = held_by_.find(partition);
        problems.push_back(Name(partition) + ": " +
                           (!kafka_problem.empty() ? kafka_problem
                            : held != held_by_.end()
                                ? "a replay of " + held->second + " is not done yet"
                                : "no worker has answered; is one of them its owner, and new enough?"));
      }
      break;
    }
    parts_.pause();
  }
  return std::move(outcomes_);
}

std::optional<ReplayErrand::Slots> ReplayErrand::Read() const {
  std::vector<OffsetStore::Key> keys;
  for (const auto& [partition, request] : left_) keys.push_back(SlotOf(partition));
  const auto found = parts_.offsets->Fetch(keys, kKafkaAnswer);
  if (!found) return std::nullopt;
  Slots slots;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    slots[keys[i].partition] =
        (*found)[i] ? delivery::DecodeReplaySlot((*found)[i]->metadata) : std::optional<ReplaySlot>();
  }
  return slots;
}

void ReplayErrand::Look(const Slots& slots, std::int64_t now_ms) {
  std::map<TopicPartition, ReplaySlot> to_ask;
  for (const auto& [partition, slot] : slots) {
    const auto& request = left_.at(partition);
    held_by_.erase(partition);
    if (slot && slot->request.id == request.id) {
      if (!slot->outcome) continue;  // asked
      outcomes_[partition] = *slot->outcome;
      left_.erase(partition);
    } else if (slot && !slot->outcome && slot->request.until_ms >= now_ms) {
      held_by_[partition] = slot->request.subscription;
    } else {
      // Free; or somebody asked at the same moment as we did and was answered: ours was lost.
      to_ask[partition] = {request, std::nullopt};
    }
  }
  if (Write(to_ask)) {
    for (const auto& [partition, slot] : to_ask) asked_[partition] = true;
  }
}

bool ReplayErrand::Write(const std::map<TopicPartition, ReplaySlot>& slots) {
  if (slots.empty()) return true;
  std::vector<OffsetStore::Key> keys;
  for (const auto& [partition, slot] : slots) {
    keys.push_back(SlotOf(partition));
    parts_.offsets->Update(keys.back(), {slot.request.from, EncodeReplaySlot(slot)}, /*urgent=*/true, /*changed=*/true);
  }
  return FlushNow(*parts_.offsets, keys);
}

/// What nobody has answered is not to be found by a worker that starts later.
void ReplayErrand::TakeBack(const std::string& why) {
  std::map<TopicPartition, ReplaySlot> back;
  for (const auto& [partition, request] : left_) {
    if (!asked_[partition] || held_by_.count(partition) != 0) continue;
    ReplayOutcome outcome;
    outcome.refused = why;
    back[partition] = {request, outcome};
  }
  static_cast<void>(Write(back));  // `until` ends it otherwise
}

void ReplayErrand::MovePositions(std::vector<std::string>& problems) {
  TakeBack("taken back: the fleet has no worker");
  std::vector<OffsetStore::Key> keys;
  for (const auto& [partition, request] : left_) keys.push_back({request.subscription, partition});
  const auto stored = parts_.offsets->Fetch(keys, kKafkaAnswer);
  if (!stored) {
    problems.push_back("the stored positions cannot be read: Kafka does not answer");
    return;
  }
  Outcomes moved;
  std::vector<OffsetStore::Key> written;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto& request = left_.at(keys[i].partition);
    if (!(*stored)[i]) continue;  // never began there: it begins as configured
    const auto& position = *(*stored)[i];
    auto decoded = delivery::DecodeCommitState(position.next, position.metadata);
    auto* known = std::get_if<delivery::CommitState>(&decoded);
    auto rewound = delivery::RewindTo(position.next, known != nullptr ? std::move(*known) : delivery::CommitState{},
                                      request.from, request.to);
    moved[keys[i].partition] = {position.next, rewound.next, rewound.again, ""};
    if (rewound.next == position.next) continue;
    parts_.offsets->Update(keys[i], {rewound.next, delivery::EncodeCommitState(rewound.next, rewound.known)},
                           /*urgent=*/true,
                           /*changed=*/true);
    written.push_back(keys[i]);
  }
  if (!written.empty() && !FlushNow(*parts_.offsets, written)) {
    problems.push_back("the new positions could not be stored, or not all of them");
    return;
  }
  outcomes_.merge(moved);
}

}  // namespace posthorn::cli
