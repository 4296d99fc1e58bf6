#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "worker/delivery/dispatcher.h"
#include "worker/delivery/offset_store.h"
#include "worker/delivery/replay.h"

namespace posthorn::delivery {

/// Takes up the replay requests for this worker's partitions and answers them in the slots they came in.
///
/// A request is carried out once: when the answer cannot be stored at first, only the answer is tried again. A worker
/// that dies after the new position was stored and before the answer leaves the request to the partition's next owner,
/// who delivers [from, to) again: duplicates, no loss.
/// Time     Slots are read once a `period`, with one request for all of the worker's partitions.
/// Threads  Start and Stop: the owner. Poll: the thread that Start began, or a test's.
class ReplayInbox {
 public:
  struct Parts {
    Dispatcher* dispatcher = nullptr;
    OffsetStore* offsets = nullptr;
    MembershipGuard* guard = nullptr;
    runtime::Clock* clock = nullptr;
    std::chrono::milliseconds period{1000};
  };
  explicit ReplayInbox(Parts parts);
  ~ReplayInbox();
  ReplayInbox(const ReplayInbox&) = delete;
  ReplayInbox& operator=(const ReplayInbox&) = delete;

  void Start();
  /// Waits for the request being carried out. Idempotent.
  void Stop();
  /// Looks at the slots once. Blocks while requests are carried out (lanes are closed) and while Kafka answers.
  void Poll();

 private:
  void Run();
  void Take(const TopicPartition& partition, const ReplaySlot& slot);
  [[nodiscard]] bool Answer(const TopicPartition& partition, ReplaySlot slot, const ReplayOutcome& outcome);

  Parts parts_;
  std::map<TopicPartition, std::pair<std::string, ReplayOutcome>> unanswered_;  // request -> what became of it
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace posthorn::delivery
