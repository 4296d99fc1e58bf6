#include "config/sources/url_source.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <iomanip>
#include <locale>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <variant>

#include "config/load.h"
#include "config/secret.h"
#include "config/sources/http_client.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMostRedirects = 5;
constexpr milliseconds kMostRetryAfter{24 * 3'600'000};

std::string Header(const HttpAnswer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? std::string() : found->second;
}

// The document's name in faults.
std::string NameOf(const std::string& url) {
  const std::string path = ShownUrl(url);
  const std::size_t host = path.find("://");
  const std::size_t slash = path.rfind('/');
  const bool named = slash != std::string::npos && slash + 1 < path.size() && slash > host + 2;
  return named ? path.substr(slash + 1) : "document";
}

}  // namespace

class UrlSource::Impl {
 public:
  Impl(UrlSettings settings, const Environment& environment, UrlTiming timing)
      : settings_(std::move(settings)),
        environment_(environment),
        timing_(timing),
        name_(NameOf(settings_.url)),
        client_(Tls{.ca = settings_.ca, .certificate = "", .key = "", .server_name = ""}) {}

  Outcome Next(const std::string& have, milliseconds wait, const std::stop_token& stop) {
    const Clock::time_point deadline = Clock::now() + wait;
    const bool anew = have.empty() || have != revision_;
    if (anew) {
      etag_.clear();
      etag_settled_ = false;
      next_look_ = Clock::now();
    }
    for (;;) {
      if (!Sleep(std::min(next_look_, deadline), stop)) return Stopped();
      if (Clock::now() < next_look_) return Unchanged();
      if (auto outcome = Look(have, stop)) return std::move(*outcome);
    }
  }

  std::string Describe() const { return "url " + ShownUrl(settings_.url); }

 private:
  // False: stopped.
  bool Sleep(Clock::time_point until, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any sleep;
    sleep.wait_until(lock, stop, until, [] { return false; });
    return !stop.stop_requested();
  }

  std::optional<Outcome> Look(const std::string& have, const std::stop_token& stop) {
    std::uniform_int_distribution<std::int64_t> jitter(settings_.every.count() * 9 / 10,
                                                       settings_.every.count() * 11 / 10);
    next_look_ = Clock::now() + milliseconds(jitter(random_));
    const Clock::time_point asked_at = Clock::now();
    const bool conditional = etag_settled_ && asked_at < read_at_ + timing_.unconditional;

    HttpRequest request;
    request.url = settings_.url;
    request.answer_within = timing_.answer_within;
    request.whole_within = timing_.whole_within;
    request.most_bytes = kMaxDocumentBytes;
    request.most_redirects = kMostRedirects;
    request.compressed = true;
    if (conditional) request.headers.emplace_back("If-None-Match", etag_);
    for (const auto& [name, secret] : settings_.headers) {
      std::string why;
      const auto value = ReadSecret(secret, &why, environment_);
      if (!value) return Fail(why);
      request.private_headers.emplace_back(name, *value);
    }

    HttpOutcome outcome = client_.Do(request, stop);
    if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
    if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return Fail(failure->why);
    auto& answer = std::get<HttpAnswer>(outcome);
    if (answer.status == 304 && conditional) return std::nullopt;
    if (answer.status != 200) return FailWith(answer);
    read_at_ = Clock::now();
    const std::string etag = Header(answer, "etag");
    if (etag != etag_) {
      etag_ = etag;
      etag_seen_at_ = read_at_;
    }
    const bool settled = timing_.etag_settles.count() == 0 || asked_at >= etag_seen_at_ + timing_.etag_settles;
    etag_settled_ = !etag_.empty() && settled;
    RawSnapshot snapshot;
    snapshot.files[name_] = std::move(answer.body);
    snapshot.revision = revision_ = Digest(snapshot.files);
    snapshot.number = etag_;
    if (revision_ == have) return std::nullopt;
    return Changed{std::move(snapshot)};
  }

  Outcome Fail(const std::string& why) const { return Failed{ShownUrl(settings_.url) + ": " + why}; }

  Outcome FailWith(const HttpAnswer& answer) const {
    Failed failed{ShownUrl(settings_.url) + ": answers " + std::to_string(answer.status)};
    failed.retryable = answer.status != 401 && answer.status != 403;
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    const ratelimit::WallTime now(std::chrono::duration_cast<ratelimit::Nanoseconds>(since));
    failed.retry_after = ParseRetryAfter(Header(answer, "retry-after"), now).value_or(milliseconds(0));
    return failed;
  }

  const UrlSettings settings_;
  const Environment environment_;
  const UrlTiming timing_;
  const std::string name_;
  HttpClient client_;
  std::string revision_;       // last read
  std::string etag_;           // of it, verbatim; empty: there is none
  bool etag_settled_ = false;  // whatever changes has another one
  Clock::time_point etag_seen_at_{};
  Clock::time_point read_at_{};  // when it was read whole
  Clock::time_point next_look_{};
  std::minstd_rand random_{std::random_device{}()};
};

UrlSource::UrlSource(UrlSettings settings, const Environment& environment, UrlTiming timing)
    : impl_(std::make_unique<Impl>(std::move(settings), environment, timing)) {}
UrlSource::~UrlSource() = default;

Outcome UrlSource::Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) {
  return impl_->Next(have, wait, stop);
}

std::string UrlSource::Describe() const { return impl_->Describe(); }

std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, ratelimit::WallTime now) {
  std::uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size()) {
    return std::min<milliseconds>(std::chrono::seconds(seconds), kMostRetryAfter);
  }
  std::tm parts{};
  std::istringstream date{std::string(text)};
  date.imbue(std::locale::classic());
  date >> std::get_time(&parts, "%a, %d %b %Y %H:%M:%S GMT");
  if (date.fail()) return std::nullopt;
  const ratelimit::WallTime then{std::chrono::seconds(timegm(&parts))};
  return std::clamp(std::chrono::ceil<milliseconds>(then - now), milliseconds(0), kMostRetryAfter);
}

}  // namespace posthorn::config
