#include "worker/http/transfer.h"

#include <algorithm>
#include <utility>

#include "worker/http/curl_target.h"
#include "worker/http/error_text.h"
#include "worker/http/response_class.h"

namespace posthorn::http {

using delivery::Response;
using delivery::Verdict;

namespace {
constexpr std::string_view kClosed = "connection closed before an answer";
}  // namespace

Transfer::Transfer(CURL* easy, AnswerLimits limits) : easy_(easy), limits_(limits) {
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, said_.data());
  curl_easy_setopt(easy_, CURLOPT_PREREQFUNCTION, &Transfer::OnBeforeRequest);
  curl_easy_setopt(easy_, CURLOPT_PREREQDATA, this);
}

Transfer::~Transfer() { curl_easy_cleanup(easy_); }

void Transfer::Begin(std::shared_ptr<CurlTarget> for_target, const delivery::Message& message,
                     delivery::AttemptHandler& for_handler, runtime::SteadyTime now) {
  target = std::move(for_target);
  handler = &for_handler;
  record = message.record;
  multi = nullptr;
  refused = {};
  started_ = now;
  said_[0] = '\0';
  written_ = Written::kNo;
  status_ = 0;
  headers_complete_ = false;
  header_bytes_ = 0;
  body_bytes_ = 0;
  retry_after_size_ = 0;

  // The lines of this message in one buffer, linked in front of the target's own list: no allocation per line.
  lines_.Clear();
  target->headers().AppendTo(message, lines_);
  nodes_.resize(lines_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].data = lines_.line(i);
    nodes_[i].next = i + 1 < nodes_.size() ? &nodes_[i + 1] : target->fixed_lines();
  }
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, nodes_.data());
  const std::string_view body = record->value().value_or(std::string_view{});
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
}

int Transfer::OnBeforeRequest(void* self, char*, char*, int, int) noexcept {
  auto* transfer = static_cast<Transfer*>(self);
  if (transfer->handler == nullptr) return CURL_PREREQFUNC_ABORT;
  if (transfer->written_ != Written::kNo) {
    // A kept-alive connection died under the request and libcurl is about to send it again on a new one. That would be
    // a second request for one permit.
    transfer->written_ = Written::kResendRefused;
    return CURL_PREREQFUNC_ABORT;
  }
  *transfer->inside_callback = true;
  const bool go = transfer->handler->OnBeforeWrite();
  *transfer->inside_callback = false;
  if (transfer->handler == nullptr) return CURL_PREREQFUNC_ABORT;  // cancelled meanwhile
  transfer->written_ = go ? Written::kYes : Written::kTakenBack;
  return go ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

std::size_t Transfer::OnHeader(char* data, std::size_t size, std::size_t count, void* self) noexcept {
  const std::size_t bytes = size * count;
  return static_cast<Transfer*>(self)->TakeHeaderLine(std::string_view(data, bytes)) ? bytes : 0;
}

bool Transfer::TakeHeaderLine(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > limits_.headers) return false;
  if (headers_complete_) return true;  // trailers
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.empty()) {
    headers_complete_ = status_ >= 200;  // else it was an interim answer and another block follows
    return true;
  }
  if (line.substr(0, 5) == "HTTP/") {
    status_ = 0;
    retry_after_size_ = 0;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return true;
    for (const char c : line.substr(space + 1, 3)) {
      if (c < '0' || c > '9') break;
      status_ = status_ * 10 + (c - '0');
    }
    return true;
  }
  constexpr std::string_view kRetryAfter = "retry-after:";
  if (line.size() > kRetryAfter.size() &&
      std::equal(kRetryAfter.begin(), kRetryAfter.end(), line.begin(),
                 [](char lower, char c) { return lower == (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); })) {
    line.remove_prefix(kRetryAfter.size());
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    // What does not fit is no form of Retry-After.
    retry_after_size_ = line.size() <= retry_after_.size() ? line.size() : 0;
    std::copy_n(line.begin(), retry_after_size_, retry_after_.begin());
  }
  return true;
}

std::size_t Transfer::OnBody(char* /*data*/, std::size_t size, std::size_t count, void* self) noexcept {
  auto* transfer = static_cast<Transfer*>(self);
  transfer->body_bytes_ += size * count;
  return transfer->body_bytes_ > transfer->limits_.body ? 0 : size * count;
}

Response Transfer::FromStatus(const runtime::Now& now) const {
  Response response;
  response.status = status_;
  response.verdict = Classify(status_, target->retry_client_errors());
  if (response.verdict != Verdict::kDelivered) {
    response.retry_after = ParseRetryAfter(std::string_view(retry_after_.data(), retry_after_size_), now.wall);
  }
  response.elapsed = now.steady - started_;
  return response;
}

Response Transfer::Conclude(CURLcode code, const runtime::Now& now) {
  if (headers_complete_) return FromStatus(now);
  Response response;
  response.elapsed = now.steady - started_;
  if (written_ == Written::kTakenBack) {
    response.verdict = Verdict::kNotSent;
    response.error = "taken back before it was sent";
  } else if (written_ == Written::kResendRefused) {
    response.error = kClosed;
  } else if (code == CURLE_OPERATION_TIMEDOUT) {
    response.error = target->timeout_text();
  } else {
    response.error = ErrorText(easy_, code, said_);
  }
  return response;
}

Response Transfer::ConcludeEarly(std::string_view error, const runtime::Now& now) const {
  if (headers_complete_) return FromStatus(now);
  Response response;
  response.elapsed = now.steady - started_;
  response.verdict =
      written_ == Written::kYes || written_ == Written::kResendRefused ? Verdict::kRetry : Verdict::kNotSent;
  response.error = error;
  return response;
}

}  // namespace posthorn::http
