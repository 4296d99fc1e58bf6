#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace posthorn::http {

class MultiHandle;

inline constexpr unsigned kReadable = 1;
inline constexpr unsigned kWritable = 2;

/// The sockets of one sender in an epoll set of their own, which the loop watches as a single descriptor.
///
/// A socket stays registered while it lives: a kept-alive connection costs no system call between requests, which is
/// where the textbook coupling of libcurl and Asio loses 10 us per request.
class SocketPoll {
 public:
  struct Event {
    MultiHandle* owner;
    int fd;
    unsigned ready;
    std::uint32_t generation;
  };

  /// `on_ready` runs on the loop when there is something to Wait for; it is asked again after Rearm only.
  SocketPoll(boost::asio::io_context& context, std::function<void()> on_ready);
  ~SocketPoll();
  SocketPoll(const SocketPoll&) = delete;
  SocketPoll& operator=(const SocketPoll&) = delete;

  /// A socket that libcurl has opened through us: it stays registered until Closing.
  void Opened(int fd, MultiHandle& owner);
  void Closing(int fd);
  /// What libcurl wants to know about `fd`; 0: nothing for now. Also takes descriptors that were not Opened.
  void Watch(int fd, MultiHandle& owner, unsigned interest);

  /// What happened; valid until the next Wait.
  [[nodiscard]] const std::vector<Event>& Wait();
  /// False when a callback has closed the socket, or lost interest, since Wait.
  [[nodiscard]] bool StillWanted(const Event& event) const;
  void Rearm();

 private:
  struct Entry {
    MultiHandle* owner = nullptr;
    std::uint32_t generation = 0;
    unsigned interest = 0;
    unsigned registered = 0;  // what epoll watches; 0: not in the set
    bool opened = false;
  };
  struct AsioSide;

  Entry& At(int fd);
  void Register(int fd, Entry& entry, unsigned wanted);

  std::vector<Entry> entries_;  // by descriptor
  std::vector<Event> ready_;
  std::function<void()> on_ready_;
  std::shared_ptr<AsioSide> asio_;
  int epoll_fd_;
};

}  // namespace posthorn::http
