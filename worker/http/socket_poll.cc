#include "worker/http/socket_poll.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>

namespace posthorn::http {

struct SocketPoll::AsioSide {
  AsioSide(boost::asio::io_context& context, int fd) : descriptor(context, fd) {}
  boost::asio::posix::stream_descriptor descriptor;  // owns the epoll descriptor
};

namespace {

std::uint32_t EpollBits(unsigned interest) {
  std::uint32_t bits = 0;
  if ((interest & kReadable) != 0) bits |= EPOLLIN;
  if ((interest & kWritable) != 0) bits |= EPOLLOUT;
  return bits;
}

}  // namespace

SocketPoll::SocketPoll(boost::asio::io_context& context, std::function<void()> on_ready)
    : on_ready_(std::move(on_ready)), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_fd_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  asio_ = std::make_shared<AsioSide>(context, epoll_fd_);
  Rearm();
}

SocketPoll::~SocketPoll() = default;

SocketPoll::Entry& SocketPoll::At(int fd) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= entries_.size()) entries_.resize(index + index / 2 + 16);
  return entries_[index];
}

void SocketPoll::Register(int fd, Entry& entry, unsigned wanted) {
  if (entry.registered == wanted) return;
  epoll_event event{};
  event.events = EpollBits(wanted);
  event.data.fd = fd;
  const int operation = entry.registered == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  [[maybe_unused]] const int result = epoll_ctl(epoll_fd_, operation, fd, &event);
  // Only memory or the system's watch limit can run out here; the transfer then ends by its timeout.
  assert(result == 0 || operation != EPOLL_CTL_MOD);
  entry.registered = wanted;
}

void SocketPoll::Opened(int fd, MultiHandle& owner) {
  Entry& entry = At(fd);
  ++entry.generation;
  entry.owner = &owner;
  entry.interest = 0;
  entry.registered = 0;
  entry.opened = true;
}

void SocketPoll::Closing(int fd) {
  Entry& entry = At(fd);
  Register(fd, entry, 0);
  ++entry.generation;
  entry.owner = nullptr;
  entry.interest = 0;
  entry.opened = false;
}

void SocketPoll::Watch(int fd, MultiHandle& owner, unsigned interest) {
  Entry& entry = At(fd);
  if (!entry.opened) {  // the name resolver's own descriptors come and go without notice
    if (interest == 0) {
      Closing(fd);
      return;
    }
    entry.owner = &owner;
  }
  entry.interest = interest;
  // No interest: stay registered for reading (a peer that closes is then noticed), which is what comes next anyway.
  Register(fd, entry, interest == 0 ? entry.registered & kReadable : interest);
}

const std::vector<SocketPoll::Event>& SocketPoll::Wait() {
  std::array<epoll_event, 256> events;
  ready_.clear();
  const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Entry& entry = At(event.data.fd);
    if (entry.interest == 0) {
      // Something came on a connection nobody uses: as a rule its end. libcurl finds out before it would use it again;
      // until then it must not wake us over and over.
      Register(event.data.fd, entry, 0);
      continue;
    }
    unsigned ready = 0;
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ready |= kReadable;
    if ((event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) ready |= kWritable;
    ready &= entry.interest;
    if (ready != 0) ready_.push_back({entry.owner, event.data.fd, ready, entry.generation});
  }
  return ready_;
}

bool SocketPoll::StillWanted(const Event& event) const {
  const Entry& entry = entries_[static_cast<std::size_t>(event.fd)];
  return entry.generation == event.generation && (entry.interest & event.ready) != 0;
}

void SocketPoll::Rearm() {
  asio_->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                               [this, alive = std::weak_ptr<AsioSide>(asio_)](const boost::system::error_code& error) {
                                 if (error || alive.expired()) return;
                                 on_ready_();
                               });
}

}  // namespace posthorn::http
