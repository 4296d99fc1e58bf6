#include "config/sources/etcd_source.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "config/sources/base64.h"
#include "config/sources/http_client.h"
#include "config/sources/json_answer.h"
#include "config/sources/shown_revision.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestWatch{1'000};
constexpr std::size_t kLongestLine = 8u << 20;  // of a watch: more must be a change, which is all we want to know

// The first key behind all that begin with the prefix.
std::string RangeEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // to the end of all keys
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

std::string MessageOf(const boost::json::value& error) {
  std::string text = TextMember(error, "message");
  if (text.empty()) text = TextMember(error, "error");
  return ShownText(text);
}

std::string RefusalText(const HttpAnswer& answer) {
  const auto json = ParseJson(answer.body);
  const std::string message = json ? MessageOf(*json) : std::string();
  return std::to_string(answer.status) + (message.empty() ? "" : ": " + message);
}

bool IsDenial(int status) { return status == 400 || status == 401 || status == 403; }

bool TakeKeys(const boost::json::value& answer, std::string_view prefix, std::map<std::string, std::string>* files) {
  const boost::json::value* keys = Member(answer, "kvs");
  if (keys == nullptr) return true;  // none
  const auto* array = keys->if_array();
  if (array == nullptr) return false;
  for (const boost::json::value& entry : *array) {
    const auto key = DecodeBase64(TextMember(entry, "key"));
    auto value = DecodeBase64(TextMember(entry, "value"));
    if (!key || !value || !key->starts_with(prefix)) return false;
    (*files)[key->substr(prefix.size())] = std::move(*value);
  }
  return true;
}

/// Which store, and how far it is.
struct Place {
  std::string cluster;
  std::int64_t revision = 0;
};

std::optional<Place> PlaceOf(const boost::json::value& answer) {
  const boost::json::value* header = Member(answer, "header");
  const auto revision = header == nullptr ? std::nullopt : NumberMember(*header, "revision");
  if (!revision) return std::nullopt;
  return Place{TextMember(*header, "cluster_id"), *revision};
}

/// Reads the lines of a watch until one of them says something.
class WatchReader {
 public:
  enum class Word { kNothing, kOpen, kEvents, kReadAgain };

  explicit WatchReader(Place at) : at_(std::move(at)) {}

  /// False: heard enough.
  bool Take(std::string_view piece) {
    buffer_ += piece;
    for (std::size_t end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n')) {
      TakeLine(std::string_view(buffer_).substr(0, end));
      if (word_ == Word::kEvents || word_ == Word::kReadAgain) return false;
      buffer_.erase(0, end + 1);
    }
    if (buffer_.size() <= kLongestLine) return true;
    word_ = Word::kEvents;
    return false;
  }

  [[nodiscard]] Word word() const { return word_; }
  [[nodiscard]] const std::string& why() const { return why_; }  // of kReadAgain

 private:
  void TakeLine(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const auto json = ParseJson(line);
    if (!json) return ReadAgain("a line of the watch is not etcd's");
    if (const auto* error = Member(*json, "error")) return ReadAgain("the watch ended: " + MessageOf(*error));
    const boost::json::value* result = Member(*json, "result");
    if (result == nullptr) return ReadAgain("a line of the watch is not etcd's");
    if (TrueMember(*result, "canceled")) {
      if (NumberMember(*result, "compact_revision").value_or(0) > 0)
        return ReadAgain("the watch's revision is compacted");
      return ReadAgain("the watch was refused: " + ShownText(TextMember(*result, "cancel_reason")));
    }
    const auto place = PlaceOf(*result);
    if (!place) return ReadAgain("a line of the watch is not etcd's");
    if (place->cluster != at_.cluster) return ReadAgain("another store answers");
    // From a revision that is still to come nothing would be heard until then.
    if (place->revision < at_.revision) return ReadAgain("the store is behind what was read");
    if (Member(*result, "events") != nullptr) {
      word_ = Word::kEvents;
    } else if (TrueMember(*result, "created")) {
      word_ = Word::kOpen;
    }
  }

  void ReadAgain(std::string why) {
    word_ = Word::kReadAgain;
    why_ = std::move(why);
  }

  const Place at_;
  std::string buffer_;
  std::string why_;
  Word word_ = Word::kNothing;
};

}  // namespace

class EtcdSource::Impl {
 public:
  Impl(EtcdSettings settings, const Environment& environment)
      : settings_(std::move(settings)),
        environment_(environment),
        client_(Tls{settings_.ca, settings_.certificate, settings_.key, {}}) {
    server_ = settings_.url;
    while (server_.ends_with('/')) server_.pop_back();
    range_ = {{"key", EncodeBase64(settings_.prefix)}, {"range_end", EncodeBase64(RangeEnd(settings_.prefix))}};
  }

  Outcome Next(const std::string& have, milliseconds wait, const std::stop_token& stop) {
    const Clock::time_point deadline = Clock::now() + wait;
    if (!shown_.IsHadBy(have)) {
      if (auto outcome = Read(have, stop)) return std::move(*outcome);
    }
    bool vain = false;  // read again because of the watch itself, and nothing was new
    for (;;) {
      WatchReader reader(at_);
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      if (auto outcome = Watch(&reader, std::max(left, kShortestWatch), stop)) return std::move(*outcome);
      if (reader.word() == WatchReader::Word::kOpen) return Unchanged();
      const bool again = reader.word() == WatchReader::Word::kReadAgain;
      if (again && std::exchange(vain, true)) return Failed{reader.why()};
      vain = again;
      if (auto outcome = Read(have, stop)) return std::move(*outcome);
    }
  }

  [[nodiscard]] std::string Describe() const {
    SourceSettings source;
    source.kind = SourceKind::kEtcd;
    source.etcd = settings_;
    return ToString(source);
  }

 private:
  // Nothing: the reader has heard a word, or the time is over.
  std::optional<Outcome> Watch(WatchReader* reader, milliseconds wait, const std::stop_token& stop) {
    boost::json::object create = range_;
    create["start_revision"] = std::to_string(at_.revision + 1);
    HttpRequest request = Request("/v3/watch", {{"create_request", std::move(create)}});
    request.whole_within = wait;
    request.on_body = [reader](std::string_view piece) { return reader->Take(piece); };
    HttpOutcome outcome = client_.Do(request, stop);
    if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
    if (reader->word() == WatchReader::Word::kEvents || reader->word() == WatchReader::Word::kReadAgain) {
      return std::nullopt;
    }
    if (const auto* failure = std::get_if<HttpFailure>(&outcome)) {
      if (failure->timed_out && reader->word() == WatchReader::Word::kOpen) return std::nullopt;
      return LostTouch(failure->why);
    }
    const auto& answer = std::get<HttpAnswer>(outcome);
    if (answer.status == 200) return Failed{"the watch ended"};
    token_.clear();
    return Failed{RefusalText(answer)};  // whether it mends the next reading tells
  }

  // etcd lets whoever shows a token wait until its store has grown to where it was when it gave that token: in a store
  // that has been wiped meanwhile, for ever.
  Failed LostTouch(const std::string& why) {
    token_.clear();
    return Failed{why};
  }

  // All keys of the prefix. Nothing: they are what the caller has.
  std::optional<Outcome> Read(const std::string& have, const std::stop_token& stop) {
    bool fresh = false;
    for (;;) {
      if (!settings_.user.empty() && token_.empty()) {
        if (auto outcome = LogIn(stop)) return outcome;
        fresh = true;
      }
      HttpOutcome outcome = client_.Do(Request("/v3/kv/range", range_), stop);
      if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
      if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return LostTouch(failure->why);
      const auto& answer = std::get<HttpAnswer>(outcome);
      if (answer.status == 200) return Take(answer.body, have);
      // A token that has expired or was forgotten in a restart: 400, 401 or 403, by version.
      const bool denied = IsDenial(answer.status);
      if (denied && !fresh && !token_.empty()) {
        token_.clear();
        continue;
      }
      token_.clear();
      return Failed{RefusalText(answer), !denied};
    }
  }

  std::optional<Outcome> Take(const std::string& body, const std::string& have) {
    const auto json = ParseJson(body);
    const auto place = json ? PlaceOf(*json) : std::nullopt;
    std::map<std::string, std::string> files;
    if (!place || !TakeKeys(*json, settings_.prefix, &files)) {
      return Failed{"the answer to a range is not as etcd sends it"};
    }
    at_ = *place;
    return shown_.Show(at_.revision, std::move(files), have);
  }

  // Nothing: logged in, or the server knows no users.
  std::optional<Outcome> LogIn(const std::stop_token& stop) {
    std::string why;
    const auto password = ReadSecret(settings_.password, &why, environment_);
    if (!password) return Failed{"password: " + why};
    const HttpOutcome outcome =
        client_.Do(Request("/v3/auth/authenticate", {{"name", settings_.user}, {"password", *password}}), stop);
    if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
    if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return Failed{failure->why};
    const auto& answer = std::get<HttpAnswer>(outcome);
    const auto json = ParseJson(answer.body);
    if (answer.status == 200 && json) token_ = TextMember(*json, "token");
    if (!token_.empty()) return std::nullopt;
    if (json && MessageOf(*json).find("authentication is not enabled") != std::string::npos) return std::nullopt;
    return Failed{"login of " + settings_.user + ": " + RefusalText(answer), !IsDenial(answer.status)};
  }

  [[nodiscard]] HttpRequest Request(std::string_view path, const boost::json::object& body) const {
    HttpRequest request;
    request.method = "POST";
    request.url = server_ + std::string(path);
    request.headers = {{"content-type", "application/json"}};
    if (!token_.empty()) request.private_headers = {{"authorization", token_}};
    request.body = boost::json::serialize(body);
    return request;
  }

  const EtcdSettings settings_;
  const Environment environment_;
  std::string server_;
  boost::json::object range_;  // from the prefix to its end
  HttpClient client_;
  std::string token_;  // of the login; empty: none
  Place at_;           // what was read last
  ShownRevision shown_;
};

EtcdSource::EtcdSource(EtcdSettings settings, const Environment& environment)
    : impl_(std::make_unique<Impl>(std::move(settings), environment)) {}
EtcdSource::~EtcdSource() = default;

Outcome EtcdSource::Next(const std::string& have, milliseconds wait, std::stop_token stop) {
  return impl_->Next(have, wait, stop);
}

std::string EtcdSource::Describe() const { return impl_->Describe(); }

}  // namespace posthorn::config
