#include "worker/cli/hermes_import.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "config/effective.h"
#include "config/rules.h"
#include "config/sources/base64.h"
#include "config/units.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;
using config::Milliseconds;

// What Hermes takes where a policy does not say.
constexpr double kRate = 400;
constexpr double kTtlSeconds = 3600;
constexpr double kBackoffMs = 100;
constexpr double kBackoffMaxSeconds = 600;
constexpr double kTimeoutMs = 1000;
constexpr double kInFlight = 100;
constexpr double kBatchTtlSeconds = 60;
constexpr double kBatchBackoffMs = 500;
constexpr double kBatchTimeoutMs = 30'000;

constexpr const char* kHead =
    "# Imported from Hermes. Each comment names what is different here or has no counterpart.\n"
    "# Posthorn sends a record as it is in Kafka: Hermes's JSON envelope "
    "({\"_w\":true,\"metadata\":...,\"message\":...})\n"
    "# is not opened, and Avro is not converted. A rate of Hermes is one data centre's, a max_rate the whole "
    "fleet's.\n";

constexpr const char* kTwice = ": stands there twice, and not alike: only one of them is taken";

std::string Text(const json::value* value) {
  return value != nullptr && value->is_string() ? std::string(value->as_string().c_str(), value->as_string().size())
                                                : std::string();
}

bool IsNeutral(const json::value& value) {
  if (value.is_null()) return true;
  if (value.is_bool()) return !value.as_bool();
  if (value.is_string()) return value.as_string().empty();
  if (value.is_array()) return value.as_array().empty();
  if (value.is_object()) {
    const auto& object = value.as_object();
    return std::all_of(object.begin(), object.end(), [](const auto& member) { return IsNeutral(member.value()); });
  }
  return false;
}

std::string Whole(double number) {
  constexpr double kMost = 1e15;  // beyond whatever an option takes
  return std::to_string(static_cast<std::int64_t>(std::clamp(std::floor(number), -kMost, kMost)));
}

/// Texts of others must not end a comment, nor reach a terminal as they are.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return text;
}

/// In double quotes, as YAML and JSON have them alike; `${` would be a variable.
std::string Quote(const std::string& text) {
  std::string quoted = json::serialize(json::value(text));
  for (std::size_t at = quoted.find("${"); at != std::string::npos; at = quoted.find("${", at + 3))
    quoted.insert(at, "$");
  return quoted;
}

std::string ToName(std::string text) {
  text = config::LowerCase(text);
  for (char& c : text) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!allowed) c = '-';
  }
  text.erase(0, std::min(text.size(), text.find_first_not_of(".-")));
  return text;
}

/// Where the bracket at `at` closes, or the text ends.
std::size_t EndOfValue(const std::string& text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t end = at; end < text.size(); ++end) {
    const char c = text[end];
    if (quoted) {
      if (c == '\\') ++end;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return end + 1;
    }
  }
  return text.size();
}

/// Whether a `[` may begin a list: ZooKeeper's shell has prompts and lists of its own in such brackets.
bool MayBeList(const std::string& text, std::size_t at) {
  const auto next = text.find_first_not_of(" \t\r\n", at + 1);
  return next != std::string::npos && std::string_view("{[]\"").find(text[next]) != std::string_view::npos;
}

/// The JSON values of a text, whatever stands between them. What cannot be read may be no JSON at all, unless it is
/// part of a subscription, or all there is.
std::vector<json::value> ValuesIn(const std::string& text, std::string& error) {
  std::vector<json::value> values;
  std::string first_failure;
  std::size_t at = 0;
  while ((at = text.find_first_of("{[", at)) != std::string::npos) {
    if (text[at] == '[' && !MayBeList(text, at)) {
      ++at;
      continue;
    }
    const std::string_view piece(text.data() + at, EndOfValue(text, at) - at);
    json::error_code failed;
    auto value = json::parse(json::string_view(piece.data(), piece.size()), failed);
    if (!failed) {
      values.push_back(std::move(value));
      at += piece.size();
      continue;
    }
    if (first_failure.empty()) first_failure = "not JSON at byte " + std::to_string(at) + ": " + failed.message();
    if (text[at] == '{' && piece.find("\"topicName\"") != std::string_view::npos) {
      error = first_failure;
      return values;
    }
    ++at;
  }
  if (values.empty()) error = first_failure.empty() ? "there is no JSON in it" : first_failure;
  return values;
}

/// What a string holds where nodes were exported as such, as it is or in base64.
std::optional<json::value> ValueInside(const json::string& string) {
  std::string text(string.data(), string.size());
  if (text.starts_with('e')) text = config::DecodeBase64(text).value_or("");  // of `{`
  if (!text.starts_with('{')) return std::nullopt;
  json::error_code failed;
  auto value = json::parse(json::string_view(text.data(), text.size()), failed);
  if (failed) return std::nullopt;
  return value;
}

class OneSubscription {
 public:
  OneSubscription(const json::object& object, std::string name, const std::string& kafka_namespace,
                  const config::Capabilities& capabilities)
      : object_(object), name_(std::move(name)), capabilities_(capabilities) {
    hermes_topic_ = Text(object_.if_contains("topicName"));
    hermes_name_ = Text(object_.if_contains("name"));
    topic_ = (kafka_namespace.empty() ? "" : kafka_namespace + "_") + hermes_topic_;
  }

  /// Its lines, each indented as an item of `subscriptions`.
  std::string Lines() {
    for (const char* known : {"name", "topicName", "createdAt", "modifiedAt"}) object_.erase(known);
    if (hermes_name_ != name_) Note("name: in Hermes " + OneLine(hermes_name_));
    Line("name", name_);
    Line("topic", Quote(topic_));
    Endpoint();
    Delivery();
    State();
    Headers();
    Http2();
    description_ = OneLine(Text(&given_description_));
    const auto owner = Take("owner");
    if (!IsNeutral(owner)) Note("owner: no counterpart");
    Monitoring();
    Tracking();
    Rest();
    if (paused_) Line("paused", "true");
    return lines_;
  }

  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const std::string& description() const { return description_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  json::value Take(const char* key) {
    const auto* found = object_.if_contains(key);
    if (found == nullptr) return nullptr;
    json::value value = *found;
    object_.erase(key);
    return value;
  }
  void Line(const std::string& key, const std::string& value) {
    lines_ += (lines_.empty() ? "  - " : "    ") + key + ": " + value + "\n";
  }
  void Note(const std::string& text) { notes_.push_back(text); }
  /// What would deliver something else than before waits for somebody to look.
  void Pause(const std::string& why) {
    Note(why);
    paused_ = true;
  }

  static std::optional<double> Number(json::object& policy, const char* key) {
    const auto* found = policy.if_contains(key);
    std::optional<double> number;
    if (found != nullptr && found->is_number()) number = found->to_number<double>();
    policy.erase(key);
    return number;
  }
  /// Within what the option takes.
  std::string Duration(const std::string& key, double ms, double least, double most) {
    const double within = std::clamp(std::floor(ms), least, most);
    const auto text = config::FormatDuration(Milliseconds(static_cast<std::int64_t>(within)));
    if (within != std::floor(ms)) Note(key + ": " + text + " is what can be had");
    return text;
  }

  void Endpoint() {
    std::string url = Text(object_.if_contains("endpoint"));
    object_.erase("endpoint");
    const auto scheme = url.find("://");
    const auto host = scheme == std::string::npos ? 0 : scheme + 3;
    const auto at = url.substr(0, url.find_first_of("/?#", host)).rfind('@');
    if (at != std::string::npos && at >= host) {
      url.erase(host, at + 1 - host);
      Pause("endpoint: its user and password are left out: give `headers: { authorization: file:/path }`");
    }
    if (url.find('{') != std::string::npos) Note("endpoint: parts of a message in the URL have no counterpart");
    Line("endpoint", Quote(url));
    if (const auto metadata = Take("endpointAddressResolverMetadata"); !IsNeutral(metadata)) {
      Note("endpointAddressResolverMetadata: no counterpart");
    }
  }

  void Delivery() {
    const auto type = Take("deliveryType");
    const bool batch = Text(&type) == "BATCH";
    auto value = Take("subscriptionPolicy");
    json::object policy = value.is_object() ? value.as_object() : json::object();
    if (batch) {
      Pause("deliveryType BATCH: no batches here, the endpoint would get one message in each request");
      for (const char* key : {"batchSize", "batchTime", "batchVolume"}) {
        if (Number(policy, key)) Note(std::string("subscriptionPolicy.") + key + ": no counterpart");
      }
    } else {
      Line("max_rate", Whole(Number(policy, "rate").value_or(kRate)) + "/s");
    }
    Retries(policy, batch);
    Line("timeout",
         Duration("requestTimeout", Number(policy, "requestTimeout").value_or(batch ? kBatchTimeoutMs : kTimeoutMs), 1,
                  3'600'000));
    InFlight(policy, batch);
    for (const char* key : {"socketTimeout", "sendingDelay"}) {
      if (const auto number = Number(policy, key); number && *number != 0) {
        Note(std::string("subscriptionPolicy.") + key + " (" + Whole(*number) + " ms): no counterpart");
      }
    }
    policy.erase("backoffMaxIntervalMillis");  // the same once more
    for (const auto& member : policy) {
      if (!IsNeutral(member.value()))
        Note("subscriptionPolicy." + OneLine(std::string(member.key())) + ": no counterpart");
    }
    if (const auto mode = Take("mode"); Text(&mode) == "BROADCAST") {
      Note("mode BROADCAST: no counterpart, the one endpoint gets each message");
    }
    if (const auto content = Take("contentType"); Text(&content) == "AVRO") {
      Note("contentType AVRO: the endpoint gets the record as it is");
    }
    if (const auto filters = Take("filters"); !IsNeutral(filters)) {
      Pause("filters: no counterpart, the endpoint would get every message of the topic");
    }
    if (const auto oauth = Take("oAuthPolicy"); !IsNeutral(oauth)) Pause("oAuthPolicy: no counterpart");
  }

  void Retries(json::object& policy, bool batch) {
    const double ttl = Number(policy, "messageTtl").value_or(batch ? kBatchTtlSeconds : kTtlSeconds);
    if (ttl <= 0) {
      Line("max_attempts", "1");
      Note("messageTtl 0: one attempt");
    } else {
      Line("ttl", Duration("messageTtl", ttl * 1000, 1, 8760.0 * 3'600'000));
    }
    const double initial = Number(policy, "messageBackoff").value_or(batch ? kBatchBackoffMs : kBackoffMs);
    const double multiplier = Number(policy, "backoffMultiplier").value_or(1);
    const double most = 1000 * Number(policy, "backoffMaxIntervalInSec").value_or(kBackoffMaxSeconds);
    constexpr double kDay = 86'400'000;
    Line("backoff", "{ initial: " + Duration("messageBackoff", initial, 1, kDay) +
                        ", multiplier: " + config::FormatNumber(std::clamp(multiplier, 1.0, 100.0)) + ", max: " +
                        Duration("backoffMaxIntervalInSec", std::max(most, initial), 1, kDay) + ", jitter: none }");
    const auto* retry = policy.if_contains("retryClientErrors");
    if (retry != nullptr && retry->is_bool() && retry->as_bool()) Line("retry_client_errors", "true");
    policy.erase("retryClientErrors");
  }

  void InFlight(json::object& policy, bool batch) {
    const double in_flight = Number(policy, "inflightSize").value_or(kInFlight);
    if (batch) return;
    Line("max_in_flight", Whole(std::clamp(in_flight, 1.0, 65536.0)));
    if (in_flight == 1) {
      Line("ordering", "partition");
      Note("inflightSize 1: taken for the wish for order, `ordering: partition`");
    }
  }

  void State() {
    const auto state = Take("state");
    if (Text(&state) == "SUSPENDED") Pause("state SUSPENDED: paused");
    given_description_ = Take("description");
  }

  void Headers() {
    const auto value = Take("headers");
    std::vector<std::pair<std::string, std::string>> headers;
    if (value.is_array()) {
      for (const auto& header : value.as_array()) {
        if (header.is_object()) {
          headers.emplace_back(Text(header.as_object().if_contains("name")),
                               Text(header.as_object().if_contains("value")));
        }
      }
    }
    if (const auto identity = Take("subscriptionIdentityHeadersEnabled"); !IsNeutral(identity)) {
      headers.emplace_back("Hermes-Topic-Name", hermes_topic_);
      headers.emplace_back("Hermes-Subscription-Name", hermes_name_);
    }
    if (headers.empty()) return;
    std::string all;
    for (const auto& [name, text] : headers) {
      all += (all.empty() ? " " : ", ") + Quote(name) + ": " + Quote(text);
      if (config::LooksSecret(name)) Note("headers." + OneLine(name) + ": keep its value in a file, `file:/path`");
    }
    Line("headers", "{" + all + " }");
  }

  void Http2() {
    if (const auto wanted = Take("http2Enabled"); IsNeutral(wanted)) return;
    if (capabilities_.http2) {
      Line("http", "2");
    } else {
      Note("http2Enabled: " + capabilities_.http2_reason);
    }
  }

  void Monitoring() {
    auto value = Take("monitoringDetails");
    if (!value.is_object()) return;
    auto& details = value.as_object();
    if (Text(details.if_contains("severity")) == "NON_IMPORTANT") details.erase("severity");
    if (!IsNeutral(value)) Note("monitoringDetails: no counterpart");
  }

  void Tracking() {
    Take("trackingEnabled");  // the same, as it was before
    const auto mode = Take("trackingMode");
    if (!IsNeutral(mode) && Text(&mode) != "trackingOff") {
      Note("trackingMode " + OneLine(Text(&mode)) + ": no counterpart; what fails is in the dead letters");
    }
  }

  void Rest() {
    for (const auto& member : object_) {
      if (!IsNeutral(member.value())) Note(OneLine(std::string(member.key())) + ": no counterpart");
    }
  }

  json::object object_;
  const std::string name_;
  const config::Capabilities& capabilities_;
  std::string hermes_topic_;
  std::string hermes_name_;
  std::string topic_;
  std::string lines_;
  std::vector<std::string> notes_;
  json::value given_description_;
  std::string description_;
  bool paused_ = false;
};

class Importer {
 public:
  Importer(const std::string& kafka_namespace, const config::Capabilities& capabilities)
      : namespace_(kafka_namespace), capabilities_(capabilities) {}

  HermesImport Run(const std::string& text) {
    for (const auto& value : ValuesIn(text, result_.error)) Collect(value);
    if (!result_.error.empty()) return std::move(result_);
    const auto key = [](const json::object& object) {
      return std::pair(Text(object.if_contains("topicName")), Text(object.if_contains("name")));
    };
    std::stable_sort(found_.begin(), found_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    const auto last = std::unique(found_.begin(), found_.end(), [&](const auto& a, const auto& b) {
      if (key(a) != key(b)) return false;
      if (a != b) result_.notes.push_back(OneLine(Text(a.if_contains("name"))) + kTwice);
      return true;
    });
    found_.erase(last, found_.end());
    std::map<std::string, int> names;
    for (const auto& object : found_) ++names[ToName(key(object).second)];
    result_.yaml = kHead + std::string(found_.empty() ? "subscriptions: []\n" : "subscriptions:\n");
    for (const auto& object : found_) {
      const auto [topic, name] = key(object);
      // Hermes's names are unique within their topic only.
      const bool alone = names[ToName(name)] == 1;
      Add(OneSubscription(object, Unused(alone ? ToName(name) : ToName(topic + "." + name)), namespace_,
                          capabilities_));
    }
    const auto whole = config::LoadSubscriptions({{"", result_.yaml}}, capabilities_);
    if (result_.taken != 0 && !whole) result_.error = "the whole is no revision: " + whole.faults.front().rule;
    // A list with nothing but comments in it is none.
    if (result_.taken == 0 && !found_.empty()) result_.yaml.insert(result_.yaml.find("subscriptions:\n") + 14, " []");
    return std::move(result_);
  }

 private:
  /// Different names of Hermes may become one.
  std::string Unused(const std::string& name) {
    std::string unused = name;
    for (int i = 2; !used_.insert(unused).second; ++i) unused = name + "-" + std::to_string(i);
    return unused;
  }

  void Collect(const json::value& value) {
    if (value.is_string()) {
      if (const auto inside = ValueInside(value.as_string())) Collect(*inside);
      return;
    }
    if (value.is_array()) {
      for (const auto& item : value.as_array()) Collect(item);
      return;
    }
    if (!value.is_object()) return;
    const auto& object = value.as_object();
    if (object.contains("topicName") && object.contains("name") && object.contains("endpoint")) {
      found_.push_back(object);
      return;
    }
    const auto before = found_.size();
    const auto others = result_.others;
    for (const auto& member : object) Collect(member.value());
    if (found_.size() == before) result_.others = others + 1;  // one, whatever is in it
  }

  void Add(OneSubscription subscription) {
    const std::string lines = subscription.Lines();
    const auto loaded = config::LoadSubscriptions({{"", "subscriptions:\n" + lines}}, capabilities_);
    std::vector<std::string> notes = subscription.notes();
    for (const auto& fault : loaded.faults) {
      const auto dot = fault.path.find('.');
      notes.push_back("left out: " + (dot == std::string::npos ? fault.path : fault.path.substr(dot + 1)) + ": " +
                      fault.rule);
    }
    if (!subscription.description().empty()) result_.yaml += "  # " + subscription.description() + "\n";
    for (const auto& note : notes) {
      result_.yaml += "  # - " + note + "\n";
      result_.notes.push_back(subscription.name() + ": " + note);
    }
    ++(loaded ? result_.taken : result_.left_out);
    std::size_t begin = 0;
    while (begin < lines.size()) {
      const auto end = lines.find('\n', begin) + 1;
      const auto line = lines.substr(begin, end - begin);
      result_.yaml += loaded ? line : "  #" + line.substr(1);
      begin = end;
    }
  }

  const std::string& namespace_;
  const config::Capabilities& capabilities_;
  HermesImport result_;
  std::vector<json::object> found_;
  std::set<std::string> used_;
};

}  // namespace

HermesImport ImportHermes(const std::string& text, const std::string& kafka_namespace,
                          const config::Capabilities& capabilities) {
  return Importer(kafka_namespace, capabilities).Run(text);
}

}  // namespace posthorn::cli
