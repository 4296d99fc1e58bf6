#include "worker/cli/sink_behaviour.h"

#include <boost/json.hpp>
#include <charconv>

namespace posthorn::cli {

namespace json = boost::json;
using std::chrono::milliseconds;

namespace {

constexpr std::int64_t kMostMs = 3'600'000;

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMostMs) return std::nullopt;
  return value;
}

std::optional<milliseconds> ParseDuration(std::string_view text) {
  std::int64_t scale = 1;
  if (text.ends_with("ms")) {
    text.remove_suffix(2);
  } else if (text.ends_with("s")) {
    text.remove_suffix(1);
    scale = 1000;
  } else {
    return std::nullopt;
  }
  const auto value = ParseInteger(text);
  if (!value || *value * scale > kMostMs) return std::nullopt;
  return milliseconds(*value * scale);
}

bool IsStatus(std::int64_t status) { return status >= 200 && status <= 599; }

std::optional<std::int64_t> Integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  return std::nullopt;
}

std::optional<double> Number(const json::value& value) {
  if (value.is_double()) return value.get_double();
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  return std::nullopt;
}

/// False: the value is not one for this key.
bool Change(std::string_view key, const json::value& value, SinkBehaviour& b) {
  if (key == "status" || key == "fail_status") {
    const auto status = Integer(value);
    if (!status || !IsStatus(*status)) return false;
    (key == "status" ? b.status : b.fail_status) = static_cast<int>(*status);
    return true;
  }
  if (key == "fail" || key == "poison" || key == "reset") {
    const auto share = value.is_string() ? ParseShare(std::string_view(value.get_string())) : Number(value);
    if (!share || !(*share >= 0 && *share <= 1)) return false;
    (key == "fail" ? b.fail : key == "poison" ? b.poison : b.reset) = *share;
    return true;
  }
  if (key == "latency_ms") {
    std::optional<std::int64_t> least;
    std::optional<std::int64_t> most;
    if (value.is_array() && value.get_array().size() == 2) {
      least = Integer(value.get_array()[0]);
      most = Integer(value.get_array()[1]);
    } else {
      least = most = Integer(value);
    }
    if (!least || !most || *least < 0 || *most < *least || *most > kMostMs) return false;
    b.latency_min = milliseconds(*least);
    b.latency_max = milliseconds(*most);
    return true;
  }
  if (key == "retry_after") {
    const auto seconds = Integer(value);
    if (!value.is_null() && (!seconds || *seconds < 0)) return false;
    b.retry_after = seconds;
    return true;
  }
  return false;
}

}  // namespace

bool IsPoisoned(std::string_view webhook_id, double share) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;  // FNV-1a: the same in every run
  for (const char c : webhook_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  hash ^= hash >> 32;  // of ids that differ in their last digits alone the upper bits hardly do
  return static_cast<double>(hash % 10'000) < share * 10'000;
}

std::optional<double> ParseShare(std::string_view text) {
  double scale = 1;
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    scale = 100;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= scale)) return std::nullopt;
  return value / scale;
}

bool ParseLatency(std::string_view text, SinkBehaviour& behaviour) {
  const std::size_t dash = text.find('-');
  const auto least = ParseDuration(text.substr(0, dash));
  const auto most = dash == std::string_view::npos ? least : ParseDuration(text.substr(dash + 1));
  if (!least || !most || *most < *least) return false;
  behaviour.latency_min = *least;
  behaviour.latency_max = *most;
  return true;
}

std::optional<std::string> ChangeByJson(std::string_view text, SinkBehaviour& behaviour) {
  json::error_code error;
  const json::value parsed = json::parse(text, error);
  if (error || !parsed.is_object()) return "not a JSON object";
  SinkBehaviour changed = behaviour;
  for (const auto& [key, value] : parsed.get_object()) {
    if (!Change(key, value, changed)) return "cannot take " + std::string(key) + " = " + json::serialize(value);
  }
  behaviour = changed;
  return std::nullopt;
}

std::string ToJson(const SinkBehaviour& b) {
  json::object object;
  object["status"] = b.status;
  object["fail"] = b.fail;
  object["poison"] = b.poison;
  object["fail_status"] = b.fail_status;
  object["latency_ms"] = json::array{b.latency_min.count(), b.latency_max.count()};
  object["retry_after"] = b.retry_after ? json::value(*b.retry_after) : json::value(nullptr);
  object["reset"] = b.reset;
  return json::serialize(object);
}

}  // namespace posthorn::cli
