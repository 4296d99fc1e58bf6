// A member of a group as a process of its own, to be stopped, continued and killed by real_test. Prints what happens to
// it, one word per line, with the number of partitions it owns.
//
//   kafka_member BOOTSTRAP FLEET TOPIC [INSTANCE [stuck]]
//
// With `stuck` it stands still for ever once it has given a partition up.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "tests/integration/kafka/recording_worker.h"

int main(int argc, char** argv) {
  using posthorn::kafka::RecordingWorker;
  if (argc < 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  RecordingWorker::Options options;
  const bool stuck = argc > 5 && std::string_view(argv[5]) == "stuck";
  options.on_event = [stuck](const RecordingWorker::Event& event) {
    switch (event.kind) {
      case RecordingWorker::Event::kAssigned:
        std::printf("assigned %zu\n", event.partitions.size());
        break;
      case RecordingWorker::Event::kRevoked:
        std::printf("revoked %zu\n", event.partitions.size());
        while (stuck && !event.partitions.empty()) pause();
        break;
      case RecordingWorker::Event::kLost:
        std::printf("lost %zu\n", event.partitions.size());
        break;
      case RecordingWorker::Event::kFenced:
        std::printf("fenced\n");
        break;
      case RecordingWorker::Event::kConfirmed:
        std::printf("confirmed\n");
        break;
      case RecordingWorker::Event::kCounts:
        break;
    }
  };
  RecordingWorker worker(
      posthorn::kafka::ClientConfig::From(posthorn::kafka::TestDeployment(argv[1], argv[2], argc > 4 ? argv[4] : "")),
      {argv[3]}, options);
  // A gap between two wake-ups of this loop is what a shard would notice.
  auto woken = std::chrono::steady_clock::now();
  bool confirmed = false;
  while (true) {
    worker.WaitFor([] { return false; }, std::chrono::milliseconds(50));
    const auto now = std::chrono::steady_clock::now();
    if (now - woken > std::chrono::seconds(3)) {
      worker.membership().Suspect();
      std::printf("gap %s\n", worker.membership().Confirmed() ? "confirmed" : "doubtful");
    }
    woken = now;
    if (confirmed != worker.membership().Confirmed()) {
      confirmed = !confirmed;
      std::printf("%s\n", confirmed ? "may" : "may-not");
    }
    if (getppid() == 1) break;
  }
  return 0;
}
