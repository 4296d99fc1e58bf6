#include "worker/kafka/watchdog.h"

#include <chrono>
#include <utility>

#include "worker/runtime/log.h"

namespace posthorn::kafka {

Watchdog::Watchdog(std::string what)
    : thread_([this, text = std::move(what)] {
        using namespace std::chrono_literals;
        const auto since = std::chrono::steady_clock::now();
        std::unique_lock lock(mutex_);
        while (!done_changed_.wait_for(lock, 5s, [this] { return done_; }))
          runtime::Log(
              runtime::LogLevel::kWarning, "librdkafka takes long",
              {{"at", text},
               {"seconds",
                std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - since).count()}});
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  done_changed_.notify_one();
  thread_.join();
}

}  // namespace posthorn::kafka
