#include "worker/runtime/asio_loop.h"

#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>

namespace posthorn::runtime {

struct AsioLoop::Impl {
  Impl(Clock& c, std::string n) : clock(c), name(std::move(n)), guard(context.get_executor()), now(c.Read()) {}
  Clock& clock;
  std::string name;
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard;
  Now now;
  std::thread thread;
};

namespace {

class AsioTimer final : public Timer {
 public:
  AsioTimer(AsioLoop& loop, std::function<void()> fire)
      : loop_(loop), state_(std::make_shared<State>(loop.io_context(), std::move(fire))) {}
  ~AsioTimer() override { Cancel(); }

  void Arm(SteadyTime at) override {
    const auto generation = ++state_->generation;
    state_->timer.expires_at(boost::asio::steady_timer::time_point(
        std::chrono::duration_cast<boost::asio::steady_timer::duration>(at.time_since_epoch())));
    state_->timer.async_wait([state = state_, generation, &loop = loop_](const boost::system::error_code& error) {
      // A timer that was re-armed or cancelled after it had already expired must not fire for its old time.
      if (error || generation != state->generation) return;
      loop.Touch();
      state->fire();
    });
  }

  void Cancel() override {
    ++state_->generation;
    state_->timer.cancel();
  }

 private:
  struct State {
    State(boost::asio::io_context& context, std::function<void()> f) : timer(context), fire(std::move(f)) {}
    boost::asio::steady_timer timer;
    std::function<void()> fire;
    std::uint64_t generation = 0;
  };
  AsioLoop& loop_;
  std::shared_ptr<State> state_;
};

}  // namespace

AsioLoop::AsioLoop(Clock& clock, std::string thread_name)
    : impl_(std::make_unique<Impl>(clock, std::move(thread_name))) {}

AsioLoop::~AsioLoop() { Stop(); }

void AsioLoop::Start() {
  impl_->thread = std::thread([this] {
    pthread_setname_np(pthread_self(), impl_->name.substr(0, 15).c_str());
    impl_->context.run();
  });
}

void AsioLoop::Stop() {
  impl_->guard.reset();
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void AsioLoop::Post(std::function<void()> work) {
  boost::asio::post(impl_->context, [this, work = std::move(work)] {
    Touch();
    work();
  });
}

std::unique_ptr<Timer> AsioLoop::MakeTimer(std::function<void()> fire) {
  return std::make_unique<AsioTimer>(*this, std::move(fire));
}

const Now& AsioLoop::now() const { return impl_->now; }

void AsioLoop::Touch() { impl_->now = impl_->clock.Read(); }

boost::asio::io_context& AsioLoop::io_context() { return impl_->context; }

}  // namespace posthorn::runtime
