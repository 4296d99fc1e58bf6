#include "config/sources/http_client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>

#include "config/sources/libcurl_basics.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostHeaderBytes = 64u << 10;
constexpr long kConnectWithinMs = 4'000;
constexpr long kNamesKeptSeconds = 5;  // a source that moves is found again soon

// A long poll has nothing to send: only these tell within ten seconds that the other side is gone without a word.
constexpr long kKeepAliveIdleSeconds = 5;
constexpr long kKeepAliveGapSeconds = 2;
constexpr int kKeepAliveProbes = 2;

int OnSocket(void* /*self*/, curl_socket_t fd, curlsocktype /*purpose*/) noexcept {
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof(kKeepAliveProbes));
  return CURL_SOCKOPT_OK;
}

/// A URL in its parts.
class Url {
 public:
  explicit Url(std::string_view text) : url_(curl_url()) {
    if (url_ == nullptr) throw std::bad_alloc();
    good_ = curl_url_set(url_, CURLUPART_URL, std::string(text).c_str(), 0) == CURLUE_OK;
  }
  ~Url() { curl_url_cleanup(url_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;

  [[nodiscard]] std::string Part(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_, part, &text, flags) != CURLUE_OK || text == nullptr) return {};
    std::string out(text);
    curl_free(text);
    return out;
  }
  bool Set(CURLUPart part, const std::string& value) {
    return curl_url_set(url_, part, value.empty() ? nullptr : value.c_str(), 0) == CURLUE_OK;
  }
  [[nodiscard]] bool Https() const { return Part(CURLUPART_SCHEME) == "https"; }
  [[nodiscard]] bool Usable() const { return good_ && (Https() || Part(CURLUPART_SCHEME) == "http"); }
  [[nodiscard]] std::string Origin() const {
    return Part(CURLUPART_SCHEME) + "://" + Part(CURLUPART_HOST) + ":" + Part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  }

 private:
  CURLU* url_;
  bool good_ = false;
};

class HeaderList {
 public:
  HeaderList() = default;
  ~HeaderList() { curl_slist_free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  void Add(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  /// False: it cannot be sent as a header.
  bool Add(const HttpRequest::Headers& headers) {
    const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; };
    for (const auto& [name, value] : headers) {
      if (std::any_of(value.begin(), value.end(), control) || name.find_first_of(":\r\n") != std::string::npos) {
        return false;
      }
      Add(value.empty() ? name + ";" : name + ": " + value);  // libcurl's way to send one without a value
    }
    return true;
  }
  [[nodiscard]] curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// libcurl's own texts may quote what was sent or received.
std::string ErrorText(CURL* easy, CURLcode code, const ErrorBuffer& said, bool answered) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return "dns: not found";
    case CURLE_COULDNT_CONNECT:
      return std::string(ConnectText(easy));
    case CURLE_OPERATION_TIMEDOUT:
      return "timed out";
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      if (const auto refusal = AlertText(said); !refusal.empty()) return std::string(refusal);
      [[fallthrough]];
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
      return answered ? "connection closed before the answer's end" : "connection closed before an answer";
    case CURLE_PEER_FAILED_VERIFICATION:
      return std::string(CertificateText(easy));
    case CURLE_SSL_CACERT_BADFILE:
      return "TLS: ca file cannot be used";
    case CURLE_SSL_CERTPROBLEM:
      return "TLS: client certificate or key cannot be used";
    case CURLE_SSL_CONNECT_ERROR:
      if (const auto refusal = AlertText(said); !refusal.empty()) return std::string(refusal);
      return "TLS: handshake failed";
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // no status line
    case CURLE_BAD_CONTENT_ENCODING:
      return "not an HTTP answer";
    case CURLE_URL_MALFORMAT:
      return "url cannot be used";
    case CURLE_OUT_OF_MEMORY:
      return "out of memory";
    default:
      return "transfer failed";
  }
}

std::string InSeconds(milliseconds time) {
  const auto ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

class HttpClient::Impl {
 public:
  explicit Impl(Tls tls) : tls_(std::move(tls)) {
    StartLibcurl();
    multi_ = curl_multi_init();
    easy_ = curl_easy_init();
    if (multi_ == nullptr || easy_ == nullptr) throw std::bad_alloc();
  }
  ~Impl() {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  HttpOutcome Do(const HttpRequest& request, const std::stop_token& stop) {
    const Clock::time_point begin = Clock::now();
    const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_); });
    std::string target = request.url;
    std::string own_origin;
    for (int hops = 0;; ++hops) {
      Url url(target);
      if (!url.Usable()) return HttpFailure{hops == 0 ? "url cannot be used" : "redirect to an unusable url"};
      if (hops == 0) own_origin = url.Origin();
      const bool own = url.Origin() == own_origin;
      HttpOutcome outcome = Exchange(request, url, own, begin, stop);
      const HttpAnswer* answer = std::get_if<HttpAnswer>(&outcome);
      if (answer == nullptr || !IsRedirect(answer->status) || request.most_redirects == 0 || request.method != "GET") {
        return outcome;
      }
      if (hops == request.most_redirects) return HttpFailure{"too many redirects", false, true};
      if (redirect_.empty()) return HttpFailure{"redirect to nowhere", false, true};
      if (url.Https() && !Url(redirect_).Https()) return HttpFailure{"redirect from https to http", false, true};
      target = redirect_;
    }
  }

 private:
  enum class Cut { kNone, kEnough, kBodyTooLarge, kHeadersTooLarge };

  HttpOutcome Exchange(const HttpRequest& request, Url& url, bool own, Clock::time_point begin,
                       const std::stop_token& stop) {
    request_ = &request;
    answer_ = {};
    answered_ = false;
    cut_ = Cut::kNone;
    header_bytes_ = 0;
    redirect_.clear();

    HeaderList headers;
    headers.Add("Expect:");
    HeaderList connect_to;
    if (own && url.Https() && !tls_.server_name.empty() && !Rename(url, headers, connect_to)) {
      return HttpFailure{"tls.server_name cannot be used"};
    }
    if (!headers.Add(request.headers) || (own && !headers.Add(request.private_headers))) {
      return HttpFailure{"a header that is to be sent holds a control character"};
    }
    SetUp(request, url, own, headers, connect_to);
    if (curl_multi_add_handle(multi_, easy_) != CURLM_OK) return HttpFailure{"out of memory"};
    HttpOutcome outcome = Run(request, begin, stop);
    const char* redirect = nullptr;
    if (curl_easy_getinfo(easy_, CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK && redirect != nullptr) {
      redirect_ = redirect;
    }
    curl_multi_remove_handle(multi_, easy_);
    curl_easy_reset(easy_);  // nothing may point to the lists any more
    return outcome;
  }

  // Asks for `server_name` where the URL's host is.
  bool Rename(Url& url, HeaderList& headers, HeaderList& connect_to) const {
    const std::string host = url.Part(CURLUPART_HOST);
    const std::string port = url.Part(CURLUPART_PORT);
    connect_to.Add("::" + host + ":" + url.Part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
    headers.Add("Host: " + host + (port.empty() ? "" : ":" + port));
    return url.Set(CURLUPART_HOST, tls_.server_name);
  }

  void SetUp(const HttpRequest& request, const Url& url, bool own, const HeaderList& headers,
             const HeaderList& connect_to) {
    curl_easy_setopt(easy_, CURLOPT_URL, url.Part(CURLUPART_URL).c_str());
    curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);  // a name look-up that does not come back must not hold up a stop
    curl_easy_setopt(easy_, CURLOPT_PROXY, "");
    curl_easy_setopt(easy_, CURLOPT_DNS_CACHE_TIMEOUT, kNamesKeptSeconds);
    curl_easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy_, CURLOPT_TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    curl_easy_setopt(easy_, CURLOPT_TCP_KEEPINTVL, kKeepAliveGapSeconds);
    curl_easy_setopt(easy_, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
    curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, kConnectWithinMs);
    curl_easy_setopt(easy_, CURLOPT_USERAGENT, "posthorn/" POSTHORN_VERSION);
    curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers.get());
    if (connect_to.get() != nullptr) curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, connect_to.get());
    if (request.compressed) curl_easy_setopt(easy_, CURLOPT_ACCEPT_ENCODING, "");
    if (!request.body.empty()) {
      curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request.body.data());
    }
    if (request.method != "GET") curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &Impl::OnHeader);
    curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Impl::OnBody);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
    said_[0] = '\0';
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, said_.data());
    if (!url.Https()) return;
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy_, CURLOPT_CA_CACHE_TIMEOUT, 0L);  // files are replaced while we run
    if (!tls_.ca.empty()) {
      curl_easy_setopt(easy_, CURLOPT_CAINFO, tls_.ca.c_str());
      curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);  // the system's authorities do not count beside it
    }
    if (own && !tls_.certificate.empty()) curl_easy_setopt(easy_, CURLOPT_SSLCERT, tls_.certificate.c_str());
    if (own && !tls_.key.empty()) curl_easy_setopt(easy_, CURLOPT_SSLKEY, tls_.key.c_str());
  }

  HttpOutcome Run(const HttpRequest& request, Clock::time_point begin, const std::stop_token& stop) {
    constexpr milliseconds kLongestWait{10'000};
    for (;;) {
      if (stop.stop_requested()) return HttpStopped{};
      int running = 0;
      curl_multi_perform(multi_, &running);
      if (const auto code = Finished()) return Judge(*code);
      const milliseconds within =
          answered_ ? request.whole_within : std::min(request.answer_within, request.whole_within);
      const auto left = std::chrono::ceil<milliseconds>(begin + within - Clock::now());
      if (left.count() <= 0) {
        return HttpFailure{(answered_ ? "no end of the answer within " : "no answer within ") + InSeconds(within), true,
                           answered_};
      }
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>(std::min(left, kLongestWait).count()), nullptr);
    }
  }

  std::optional<CURLcode> Finished() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    return std::nullopt;
  }

  HttpOutcome Judge(CURLcode code) {
    if (cut_ == Cut::kBodyTooLarge) {
      return HttpFailure{"the answer is larger than " + std::to_string(request_->most_bytes) + " bytes", false, true};
    }
    if (cut_ == Cut::kHeadersTooLarge) return HttpFailure{"the answer's headers are too large"};
    if (code == CURLE_OK || cut_ == Cut::kEnough) return std::move(answer_);
    return HttpFailure{ErrorText(easy_, code, said_, answered_), code == CURLE_OPERATION_TIMEDOUT, answered_};
  }

  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self) noexcept {
    return static_cast<Impl*>(self)->TakeHeader({data, size * count}) ? size * count : 0;
  }

  bool TakeHeader(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMostHeaderBytes) {
      cut_ = Cut::kHeadersTooLarge;
      return false;
    }
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
      answer_ = {};
      const std::size_t space = line.find(' ');
      if (space != std::string_view::npos) {
        const std::string_view digits = line.substr(space + 1, 3);
        std::from_chars(digits.data(), digits.data() + digits.size(), answer_.status);
      }
    } else if (line.empty()) {
      answered_ = answered_ || answer_.status >= 200;
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
      line.remove_prefix(colon + 1);
      while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
      answer_.headers[name] = line;
    }
    return true;
  }

  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self) noexcept {
    return static_cast<Impl*>(self)->TakeBody({data, size * count}) ? size * count : 0;
  }

  bool TakeBody(std::string_view piece) {
    if (request_->on_body && answer_.status / 100 == 2) {
      if (request_->on_body(piece)) return true;
      cut_ = Cut::kEnough;
      return false;
    }
    if (answer_.body.size() + piece.size() > request_->most_bytes) {
      cut_ = Cut::kBodyTooLarge;
      return false;
    }
    answer_.body += piece;
    return true;
  }

  const Tls tls_;
  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
  // Of the request that runs.
  const HttpRequest* request_ = nullptr;
  HttpAnswer answer_;
  std::size_t header_bytes_ = 0;
  std::string redirect_;
  ErrorBuffer said_{};
  bool answered_ = false;
  Cut cut_ = Cut::kNone;
};

HttpClient::HttpClient(const Tls& tls) : impl_(std::make_unique<Impl>(tls)) {}
HttpClient::~HttpClient() = default;

HttpOutcome HttpClient::Do(const HttpRequest& request, const std::stop_token& stop) { return impl_->Do(request, stop); }

std::string ShownUrl(std::string_view url) {
  Url parts(url);
  if (!parts.Usable()) return "an unusable url";
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    parts.Set(part, "");
  }
  return parts.Part(CURLUPART_URL);
}

}  // namespace posthorn::config
