#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace posthorn::kafka {

/// Logs while it lives longer than 5 s, and every 5 s again: closing or destroying a client can hang inside librdkafka.
class Watchdog {
 public:
  explicit Watchdog(std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace posthorn::kafka
