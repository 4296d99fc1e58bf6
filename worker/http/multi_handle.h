#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <optional>

#include "worker/http/socket_poll.h"
#include "worker/runtime/clock.h"

namespace posthorn::http {

class CurlTarget;

/// One libcurl multi handle: a group of transfers and their connections, driven from outside.
///
/// libcurl walks all connections of a multi handle here and there, so a sender has several, of at most kMaxTransfers
/// each. Nothing here calls back into libcurl from a libcurl callback: callbacks note what is wanted and tell the
/// Driver.
class MultiHandle {
 public:
  static constexpr std::size_t kMaxTransfers = 64;

  class Driver {
   public:
    virtual ~Driver() = default;
    /// Call Run soon, not from inside this.
    virtual void WantsRun(MultiHandle& multi) = 0;
    /// deadline() is now `at`.
    virtual void WantsRunAt(MultiHandle& multi, runtime::SteadyTime at) = 0;
    [[nodiscard]] virtual runtime::SteadyTime SteadyNow() const = 0;
  };

  struct Finished {
    CURL* easy;
    CURLcode code;
  };

  MultiHandle(SocketPoll& poll, Driver& driver);
  ~MultiHandle();
  MultiHandle(const MultiHandle&) = delete;
  MultiHandle& operator=(const MultiHandle&) = delete;

  /// Errors   False when libcurl refuses the handle.
  [[nodiscard]] bool Add(CURL* easy);
  void Remove(CURL* easy);
  void SocketReady(int fd, unsigned ready);
  /// Starts what was added and handles what has timed out.
  void Run();
  [[nodiscard]] std::optional<Finished> NextFinished();

  [[nodiscard]] std::size_t transfers() const { return transfers_; }
  [[nodiscard]] std::size_t connections() const { return connections_; }
  [[nodiscard]] std::optional<runtime::SteadyTime> deadline() const { return deadline_; }
  [[nodiscard]] runtime::SteadyTime idle_since() const { return idle_since_; }

  // The engine's notes about this group.
  bool shared = false;              // several targets with few requests each
  std::size_t homes = 0;            // how many targets call it their shared group
  CurlTarget* exclusive = nullptr;  // the one target of a group that is not shared; unset once the target is gone
  bool touched = false;             // in the list of those whose finished transfers are to be collected
  bool wants_run = false;

 private:
  static int OnSocket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket_data) noexcept;
  static int OnTimer(CURLM* multi, long timeout_ms, void* self) noexcept;
  static curl_socket_t OnOpenSocket(void* self, curlsocktype purpose, curl_sockaddr* address) noexcept;
  static int OnCloseSocket(void* self, curl_socket_t fd) noexcept;
  friend class CurlTarget;  // sets the socket callbacks on its easy handles

  SocketPoll& poll_;
  Driver& driver_;
  std::size_t transfers_ = 0;
  std::size_t connections_ = 0;
  std::optional<runtime::SteadyTime> deadline_;
  runtime::SteadyTime idle_since_{};
  CURLM* multi_;
};

}  // namespace posthorn::http
