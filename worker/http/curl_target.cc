#include "worker/http/curl_target.h"

#include <algorithm>
#include <array>
#include <new>

#include "worker/http/libcurl_support.h"
#include "worker/http/multi_handle.h"

namespace posthorn::http {

namespace {

std::string DurationText(config::Milliseconds duration) {
  const auto ms = duration.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

std::string UrlPart(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == nullptr) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

/// libcurl takes lists of char*; it does not write to them.
char* Writable(const char* text) { return const_cast<char*>(text); }

void OnlyHttp(CURL* easy) {
  if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_UNKNOWN_OPTION) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#pragma GCC diagnostic pop
  }
}

}  // namespace

CurlTarget::CurlTarget(const config::Subscription& subscription, std::string_view user_agent, AnswerLimits limits,
                       long max_idle_seconds, CURLSH* share, Registry& registry)
    : headers_(subscription, user_agent),
      retry_client_errors_(subscription.retry_client_errors),
      timeout_ms_(std::max(1L, static_cast<long>(subscription.timeout.count()))),
      max_idle_seconds_(max_idle_seconds),
      timeout_text_("timeout after " + DurationText(subscription.timeout)),
      http_(subscription.http),
      tls_(subscription.tls),
      limits_(limits),
      share_(share),
      registry_(&registry) {
  ParseEndpoint(subscription);
  if (http_ == config::HttpVersion::k2 && fault_.empty()) {
    std::string why;
    if (!Http2Available(&why)) fault_ = why;
  }
  // `accept:` and `expect:` without a value: libcurl then leaves out its own.
  std::vector<const char*> lines{"Accept:", "Expect:"};
  if (!host_line_.empty()) lines.push_back(host_line_.c_str());
  for (std::size_t i = 0; i < headers_.fixed().size(); ++i) lines.push_back(headers_.fixed().line(i));
  fixed_nodes_.resize(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    fixed_nodes_[i] = {Writable(lines[i]), i + 1 < lines.size() ? &fixed_nodes_[i + 1] : nullptr};
  }
}

CurlTarget::~CurlTarget() {
  if (registry_ != nullptr) registry_->Gone(*this);
  Detach();
}

void CurlTarget::ParseEndpoint(const config::Subscription& subscription) {
  url_ = curl_url();
  if (url_ == nullptr) throw std::bad_alloc();
  if (curl_url_set(url_, CURLUPART_URL, subscription.endpoint.c_str(), 0) != CURLUE_OK) {
    fault_ = "endpoint cannot be used";
    return;
  }
  const std::string scheme = UrlPart(url_, CURLUPART_SCHEME);
  https_ = scheme == "https";
  if (!https_ && scheme != "http") {
    fault_ = "endpoint is neither http nor https";
    return;
  }
  if (!https_ || tls_.server_name.empty()) return;

  const std::string host = UrlPart(url_, CURLUPART_HOST);
  const std::string explicit_port = UrlPart(url_, CURLUPART_PORT);
  connect_to_ = "::" + host + ":" + UrlPart(url_, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  connect_to_node_ = {connect_to_.data(), nullptr};
  host_line_ = "Host: " + host + (explicit_port.empty() ? "" : ":" + explicit_port);
  if (curl_url_set(url_, CURLUPART_HOST, tls_.server_name.c_str(), 0) != CURLUE_OK) {
    fault_ = "tls.server_name cannot be used";
  }
}

CURL* CurlTarget::MakeEasy() const {
  CURL* easy = curl_easy_init();
  if (easy == nullptr) throw std::bad_alloc();
  curl_easy_setopt(easy, CURLOPT_CURLU, url_);
  OnlyHttp(easy);
  curl_easy_setopt(easy, CURLOPT_SHARE, share_);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");  // the environment decides nothing
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms_);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms_);
  // A name look-up that does not come back must not hold up the loop when its transfer ends.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, max_idle_seconds_);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 4096L);  // answers are small and thrown away
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &MultiHandle::OnOpenSocket);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &MultiHandle::OnCloseSocket);
  if (connect_to_node_.data != nullptr) curl_easy_setopt(easy, CURLOPT_CONNECT_TO, &connect_to_node_);
  if (http_ == config::HttpVersion::k2) {
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     static_cast<long>(https_ ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
  } else {
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  }
  if (https_) SetTls(easy);
  return easy;
}

void CurlTarget::SetTls(CURL* easy) const {
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!tls_.ca.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, tls_.ca.c_str());
  // One file instead of file and folder: with a `ca` the system's authorities must not count beside it, and libcurl
  // keeps a parsed file for the next connection, but not when a folder is set too.
  if (!tls_.ca.empty() || curl_version_info(CURLVERSION_NOW)->cainfo != nullptr) {
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 300L);
  }
  if (!tls_.certificate.empty()) curl_easy_setopt(easy, CURLOPT_SSLCERT, tls_.certificate.c_str());
  if (!tls_.key.empty()) curl_easy_setopt(easy, CURLOPT_SSLKEY, tls_.key.c_str());
}

Transfer& CurlTarget::Take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Transfer>(MakeEasy(), limits_));
    free_.push_back(all_.back().get());
  }
  Transfer& transfer = *free_.back();
  free_.pop_back();
  return transfer;
}

void CurlTarget::GiveBack(Transfer& transfer) { free_.push_back(&transfer); }

void CurlTarget::FreeUnused() {
  if (in_use() == 0) {
    free_.clear();
    all_.clear();
    return;
  }
  std::sort(free_.begin(), free_.end());
  std::erase_if(
      all_, [this](const auto& transfer) { return std::binary_search(free_.begin(), free_.end(), transfer.get()); });
  free_.clear();
}

void CurlTarget::Detach() {
  registry_ = nullptr;
  FreeUnused();
  own.clear();
  shared = nullptr;
  if (url_ != nullptr) curl_url_cleanup(url_);
  url_ = nullptr;
}

}  // namespace posthorn::http
