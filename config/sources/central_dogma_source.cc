#include "config/sources/central_dogma_source.h"

#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "config/sources/file_reader.h"
#include "config/sources/http_client.h"
#include "config/sources/json_answer.h"
#include "config/sources/shown_revision.h"

namespace posthorn::config {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollSlack{5'000};  // a poll is answered somewhat before its time, or the server hangs
constexpr milliseconds kShortestPoll{1'000};
constexpr std::chrono::minutes kReadAnyway{5};
constexpr std::int64_t kNewest = -1;

std::string Encoded(std::string_view text) {
  constexpr std::string_view kPlain = "-._~/*,ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// A list of one is a pattern to the server, where the path alone would be a file.
std::string Pattern(std::string path) {
  if (path.ends_with('/')) path += "**";
  return path.find_first_of("*,") == std::string::npos ? path + "," + path : path;
}

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "com.linecorp.centraldogma.common.RevisionNotFoundException" -> "RevisionNotFoundException"
std::string ShortName(const std::string& exception) { return exception.substr(exception.rfind('.') + 1); }

struct ServerError {
  std::string exception;
  std::string message;
};

ServerError ErrorOf(const HttpAnswer& answer) {
  const auto json = ParseJson(answer.body);
  if (!json) return {};
  return {ShortName(TextMember(*json, "exception")), TextMember(*json, "message")};
}

/// Whether a list of patterns has this very path.
bool Names(std::string_view patterns, std::string_view path) {
  for (;;) {
    const std::size_t end = patterns.find(',');
    if (patterns.substr(0, end) == path) return true;
    if (end == std::string_view::npos) return false;
    patterns.remove_prefix(end + 1);
  }
}

/// One entry of the server's answer, put among the documents where it is one. False: not understood.
bool TakeEntry(const boost::json::value& entry, std::string_view patterns, std::map<std::string, std::string>* files) {
  const std::string path = TextMember(entry, "path");
  const std::string type = TextMember(entry, "type");
  if (path.empty()) return false;
  const bool document = IsDocumentName(std::string(LastName(path))) || Names(patterns, path);
  if (type == "DIRECTORY" || !document) return true;
  const boost::json::value* content = Member(entry, "content");
  if (content == nullptr) return false;
  const auto* text = content->if_string();
  // A JSON entry that holds a text holds no document, whatever stands in the text: left to the loader.
  (*files)[path] = text != nullptr && type != "JSON" ? std::string(text->data(), text->size()) : ToDocument(*content);
  return true;
}

}  // namespace

class CentralDogmaSource::Impl {
 public:
  Impl(CentralDogmaSettings settings, const Environment& environment)
      : settings_(std::move(settings)), environment_(environment), client_(Tls{settings_.ca, {}, {}, {}}) {
    std::string server = settings_.url;
    while (server.ends_with('/')) server.pop_back();
    base_ = server + "/api/v1/projects/" + Encoded(settings_.project) + "/repos/" + Encoded(settings_.repository);
    contents_ = base_ + "/contents" + Encoded(Pattern(settings_.path));
  }

  Outcome Next(const std::string& have, milliseconds wait, const std::stop_token& stop) {
    const Clock::time_point deadline = Clock::now() + wait;
    if (!shown_.IsHadBy(have) || Clock::now() >= read_at_ + kReadAnyway) {
      if (auto outcome = Read(kNewest, have, stop)) return std::move(*outcome);
    }
    // The question of a caller without patience is answered by a short poll too.
    for (bool first = true;; first = false) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      if (!first && left < kShortestPoll) return Unchanged();
      if (auto outcome = Poll(have, std::max(left, kShortestPoll), stop)) return std::move(*outcome);
    }
  }

  [[nodiscard]] std::string Describe() const {
    SourceSettings source;
    source.kind = SourceKind::kCentralDogma;
    source.central_dogma = settings_;
    return ToString(source);
  }

 private:
  // Nothing: woken, but what counts has not changed.
  std::optional<Outcome> Poll(const std::string& have, milliseconds wait, const std::stop_token& stop) {
    HttpRequest request;
    request.url = contents_;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
    request.headers = {{"if-none-match", std::to_string(at_)}, {"prefer", "wait=" + std::to_string(seconds.count())}};
    request.answer_within = request.whole_within = seconds + kPollSlack;
    HttpOutcome outcome = Ask(std::move(request), stop);
    if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
    if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return Failed{failure->why};
    const auto& answer = std::get<HttpAnswer>(outcome);
    if (answer.status == 304) return Unchanged();
    if (answer.status == 404 && ErrorOf(answer).exception == "RevisionNotFoundException") {
      return Read(kNewest, have, stop);  // the store was reset
    }
    if (answer.status != 200) return Refused(answer);
    const auto json = ParseJson(answer.body);
    const auto revision = json ? NumberMember(*json, "revision") : std::nullopt;
    if (!revision) return Failed{"the answer to a watch is not Central Dogma's"};
    return Read(*revision, have, stop);
  }

  // All entries at one revision. Nothing: they are what the caller has.
  std::optional<Outcome> Read(std::int64_t revision, const std::string& have, const std::stop_token& stop) {
    if (revision == kNewest) {
      HttpRequest request;
      request.url = base_ + "/revision/-1";
      HttpOutcome outcome = Ask(std::move(request), stop);
      if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
      if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return Failed{failure->why};
      const auto& answer = std::get<HttpAnswer>(outcome);
      if (answer.status != 200) return Refused(answer);
      const auto json = ParseJson(answer.body);
      const auto head = json ? NumberMember(*json, "revision") : std::nullopt;
      if (!head) return Failed{"the answer to a question for the revision is not Central Dogma's"};
      revision = *head;
    }
    HttpRequest request;
    request.url = contents_ + "?revision=" + std::to_string(revision);
    HttpOutcome outcome = Ask(std::move(request), stop);
    if (std::holds_alternative<HttpStopped>(outcome)) return Stopped();
    if (const auto* failure = std::get_if<HttpFailure>(&outcome)) return Failed{failure->why};
    const auto& answer = std::get<HttpAnswer>(outcome);
    if (answer.status != 200 && answer.status != 204) return Refused(answer);
    std::map<std::string, std::string> files;
    if (answer.status == 200 && !TakeEntries(answer.body, &files)) {
      return Failed{"the entries of revision " + std::to_string(revision) + " are not as Central Dogma sends them"};
    }
    at_ = revision;
    read_at_ = Clock::now();
    return shown_.Show(revision, std::move(files), have);
  }

  [[nodiscard]] bool TakeEntries(const std::string& body, std::map<std::string, std::string>* files) const {
    const auto json = ParseJson(body);
    if (!json) return false;
    const auto* entries = json->if_array();
    if (entries == nullptr) return TakeEntry(*json, settings_.path, files);
    for (const boost::json::value& entry : *entries) {
      if (!TakeEntry(entry, settings_.path, files)) return false;
    }
    return true;
  }

  HttpOutcome Ask(HttpRequest request, const std::stop_token& stop) {
    std::string token = "anonymous";
    if (!settings_.token.empty()) {
      std::string why;
      auto read = ReadSecret(settings_.token, &why, environment_);
      if (!read) return HttpFailure{"token: " + why};
      token = std::move(*read);
    }
    request.private_headers = {{"authorization", "Bearer " + token}};
    return client_.Do(request, stop);
  }

  [[nodiscard]] static Failed Refused(const HttpAnswer& answer) {
    const auto [exception, message] = ErrorOf(answer);
    std::string why = std::to_string(answer.status);
    switch (answer.status) {
      case 401:
        return {why + ": the token is not accepted", false};
      case 403:
        return {why + ": " + (message.empty() ? "no right to read" : ShownText(message)), false};
      default:
        break;
    }
    if (!exception.empty()) why += " " + ShownText(exception);
    if (!message.empty()) why += ": " + ShownText(message);
    return {why};
  }

  const CentralDogmaSettings settings_;
  const Environment environment_;
  std::string base_;      // of the repository
  std::string contents_;  // of the pattern
  HttpClient client_;
  ShownRevision shown_;
  std::int64_t at_ = 0;  // the store's revision that was read last
  Clock::time_point read_at_;
};

CentralDogmaSource::CentralDogmaSource(CentralDogmaSettings settings, const Environment& environment)
    : impl_(std::make_unique<Impl>(std::move(settings), environment)) {}
CentralDogmaSource::~CentralDogmaSource() = default;

Outcome CentralDogmaSource::Next(const std::string& have, milliseconds wait, std::stop_token stop) {
  return impl_->Next(have, wait, stop);
}

std::string CentralDogmaSource::Describe() const { return impl_->Describe(); }

}  // namespace posthorn::config
