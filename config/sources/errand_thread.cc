#include "config/sources/errand_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace posthorn::config {

struct ErrandThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Errand> errands;
  std::stop_source stop;
  bool left_behind = false;
  bool ended = false;
};

ErrandThread::ErrandThread() : shared_(std::make_shared<Shared>()), thread_([shared = shared_] { Run(shared); }) {}

ErrandThread::~ErrandThread() { Stop(std::chrono::milliseconds(0)); }

void ErrandThread::Run(const std::shared_ptr<Shared>& shared) {
  const std::stop_token stop = shared->stop.get_token();
  std::unique_lock lock(shared->mutex);
  while (!shared->left_behind) {
    if (shared->errands.empty()) {
      if (stop.stop_requested()) break;
      shared->changed.wait(lock);
      continue;
    }
    Errand errand = std::move(shared->errands.front());
    shared->errands.pop_front();
    lock.unlock();
    errand(stop);
    errand = nullptr;  // what it holds may take time to go
    lock.lock();
  }
  shared->ended = true;
  shared->changed.notify_all();
}

void ErrandThread::Post(Errand errand) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stop.stop_requested()) return;
  shared_->errands.push_back(std::move(errand));
  shared_->changed.notify_all();
}

bool ErrandThread::Stop(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return true;
  shared_->stop.request_stop();  // without the lock: it runs the callbacks of the errand
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.notify_all();
    ended = shared_->changed.wait_for(lock, patience, [this] { return shared_->ended; });
    shared_->left_behind = !ended;
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return ended;
}

}  // namespace posthorn::config
