#pragma once

#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "config/sources/libcurl_basics.h"
#include "worker/delivery/sender.h"
#include "worker/http/request_headers.h"

namespace posthorn::http {

class CurlTarget;
class MultiHandle;

/// What one answer may take up.
struct AnswerLimits {
  std::size_t body = 0;
  std::size_t headers = 0;
};

/// One request and its easy handle, reused by its target from request to request.
///
/// Lifetime Owned by the target's pool. While it is in use it keeps the target alive.
class Transfer {
 public:
  explicit Transfer(CURL* easy, AnswerLimits limits);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void Begin(std::shared_ptr<CurlTarget> target, const delivery::Message& message, delivery::AttemptHandler& handler,
             runtime::SteadyTime now);
  /// What the transfer came to, once libcurl is done with it. The error text lives as long as the target.
  [[nodiscard]] delivery::Response Conclude(CURLcode code, const runtime::Now& now);
  /// The same for a transfer that is ended before its time, with `error`.
  [[nodiscard]] delivery::Response ConcludeEarly(std::string_view error, const runtime::Now& now) const;

  [[nodiscard]] CURL* easy() const { return easy_; }

  std::shared_ptr<CurlTarget> target;
  delivery::AttemptHandler* handler = nullptr;  // unset: already told, only libcurl has to let go
  MultiHandle* multi = nullptr;                 // unset: libcurl has not got it (yet)
  std::string_view refused;                     // why libcurl will never get it
  delivery::RecordPtr record;
  std::size_t index = 0;  // in the engine's list
  bool* inside_callback = nullptr;

 private:
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self) noexcept;
  static int OnBeforeRequest(void* self, char* remote, char* local, int remote_port, int local_port) noexcept;
  bool TakeHeaderLine(std::string_view line);
  [[nodiscard]] delivery::Response FromStatus(const runtime::Now& now) const;

  enum class Written : std::uint8_t { kNo, kTakenBack, kYes, kResendRefused };

  CURL* easy_;
  config::ErrorBuffer said_{};
  AnswerLimits limits_;
  HeaderLines lines_;
  std::vector<curl_slist> nodes_;
  runtime::SteadyTime started_{};
  Written written_ = Written::kNo;
  int status_ = 0;  // of the header block being read or, once that is complete, of the answer
  bool headers_complete_ = false;
  std::size_t header_bytes_ = 0;
  std::size_t body_bytes_ = 0;
  std::array<char, 64> retry_after_{};
  std::size_t retry_after_size_ = 0;
};

}  // namespace posthorn::http
