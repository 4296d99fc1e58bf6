#include "worker/delivery/replay_inbox.h"

#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

using runtime::Log;
using runtime::LogLevel;

constexpr auto kAskTimeout = std::chrono::milliseconds(2000);
constexpr auto kFlushTimeout = std::chrono::seconds(5);

}  // namespace

ReplayInbox::ReplayInbox(Parts parts) : parts_(parts) {}

ReplayInbox::~ReplayInbox() { Stop(); }

void ReplayInbox::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ReplayInbox::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReplayInbox::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, parts_.period, [this] { return stopping_; })) {
    lock.unlock();
    Poll();
    lock.lock();
  }
}

void ReplayInbox::Poll() {
  if (!parts_.guard->Confirmed()) return;
  std::vector<OffsetStore::Key> slots;
  for (auto& partition : parts_.dispatcher->OwnedPartitions()) {
    slots.push_back({std::string(kReplaySlots), std::move(partition)});
  }
  std::erase_if(unanswered_, [&](const auto& entry) {
    return std::none_of(slots.begin(), slots.end(), [&](const auto& key) { return key.partition == entry.first; });
  });
  if (slots.empty()) return;
  const auto found = parts_.offsets->Fetch(slots, kAskTimeout);
  if (!found) return;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!(*found)[i]) continue;
    const auto slot = DecodeReplaySlot((*found)[i]->metadata);
    if (slot && !slot->outcome) Take(slots[i].partition, *slot);
  }
}

void ReplayInbox::Take(const TopicPartition& partition, const ReplaySlot& slot) {
  const auto& request = slot.request;
  if (const auto known = unanswered_.find(partition); known != unanswered_.end()) {
    if (known->second.first == request.id) {
      if (Answer(partition, slot, known->second.second)) unanswered_.erase(known);
      return;
    }
    unanswered_.erase(known);
  }
  const auto now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock->Read().wall.time_since_epoch());
  ReplayOutcome outcome;
  if (now_ms.count() > request.until_ms) {
    outcome.refused = "came too late: whoever asked does not wait any more";
  } else if (auto done = parts_.dispatcher->Replay(request, partition)) {
    outcome = std::move(*done);
  } else {
    return;  // looked at again at the next turn, by whoever owns the partition then
  }
  Log(outcome.refused.empty() ? LogLevel::kInfo : LogLevel::kWarning,
      outcome.refused.empty() ? "replay" : "replay refused",
      {{"subscription", request.subscription},
       {"topic", partition.topic},
       {"partition", partition.partition},
       {"from", request.from},
       {"to", request.to ? std::to_string(*request.to) : std::string("end")},
       {"position_before", outcome.before},
       {"position", outcome.after},
       {"again", outcome.again},
       {"why", outcome.refused}});
  if (!Answer(partition, slot, outcome)) unanswered_[partition] = {request.id, outcome};
}

/// The new position is stored before the answer is: what was answered with "done" is not undone by a crash.
bool ReplayInbox::Answer(const TopicPartition& partition, ReplaySlot slot, const ReplayOutcome& outcome) {
  const auto flush = [this](const OffsetStore::Key& key) {
    auto stored = std::make_shared<std::promise<bool>>();
    auto future = stored->get_future();
    parts_.offsets->Flush({key}, [stored](bool written) { stored->set_value(written); });
    return future.wait_for(kFlushTimeout) == std::future_status::ready && future.get();
  };
  if (outcome.refused.empty() && !flush({slot.request.subscription, partition})) return false;
  const OffsetStore::Key key{std::string(kReplaySlots), partition};
  slot.outcome = outcome;
  parts_.offsets->Update(key, {slot.request.from, EncodeReplaySlot(slot)}, /*urgent=*/true, /*changed=*/true);
  const bool answered = flush(key);
  parts_.offsets->Drop({key});
  return answered;
}

}  // namespace posthorn::delivery
