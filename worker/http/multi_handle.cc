#include "worker/http/multi_handle.h"

#include <sys/socket.h>
#include <unistd.h>

#include <new>

namespace posthorn::http {

MultiHandle::MultiHandle(SocketPoll& poll, Driver& driver)
    : poll_(poll), driver_(driver), idle_since_(driver.SteadyNow()), multi_(curl_multi_init()) {
  if (multi_ == nullptr) throw std::bad_alloc();
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &MultiHandle::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &MultiHandle::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(kMaxTransfers));
}

MultiHandle::~MultiHandle() { curl_multi_cleanup(multi_); }

bool MultiHandle::Add(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this);
  if (curl_multi_add_handle(multi_, easy) != CURLM_OK) return false;
  ++transfers_;
  return true;
}

void MultiHandle::Remove(CURL* easy) {
  curl_multi_remove_handle(multi_, easy);
  if (--transfers_ == 0) idle_since_ = driver_.SteadyNow();
}

void MultiHandle::SocketReady(int fd, unsigned ready) {
  // Errors are left to the read or write that meets them: what was received before the error counts.
  const int mask = ((ready & kReadable) != 0 ? CURL_CSELECT_IN : 0) | ((ready & kWritable) != 0 ? CURL_CSELECT_OUT : 0);
  int running = 0;
  curl_multi_socket_action(multi_, fd, mask, &running);
}

void MultiHandle::Run() {
  deadline_.reset();  // libcurl tells the next one, if there is one
  int running = 0;
  curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

std::optional<MultiHandle::Finished> MultiHandle::NextFinished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) return Finished{message->easy_handle, message->data.result};
  }
  return std::nullopt;
}

int MultiHandle::OnSocket(CURL* /*easy*/, curl_socket_t fd, int what, void* self, void* /*socket_data*/) noexcept {
  auto* multi = static_cast<MultiHandle*>(self);
  unsigned interest = 0;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) interest |= kReadable;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) interest |= kWritable;
  multi->poll_.Watch(fd, *multi, interest);
  return 0;
}

int MultiHandle::OnTimer(CURLM* /*multi*/, long timeout_ms, void* self) noexcept {
  auto* multi = static_cast<MultiHandle*>(self);
  if (timeout_ms < 0) {
    multi->deadline_.reset();
  } else if (timeout_ms == 0) {
    multi->driver_.WantsRun(*multi);
  } else {
    multi->deadline_ = multi->driver_.SteadyNow() + std::chrono::milliseconds(timeout_ms);
    multi->driver_.WantsRunAt(*multi, *multi->deadline_);
  }
  return 0;
}

curl_socket_t MultiHandle::OnOpenSocket(void* self, curlsocktype /*purpose*/, curl_sockaddr* address) noexcept {
  auto* multi = static_cast<MultiHandle*>(self);
  const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  multi->poll_.Opened(fd, *multi);
  ++multi->connections_;
  return fd;
}

int MultiHandle::OnCloseSocket(void* self, curl_socket_t fd) noexcept {
  auto* multi = static_cast<MultiHandle*>(self);
  multi->poll_.Closing(fd);
  --multi->connections_;
  return close(fd);
}

}  // namespace posthorn::http
