#include "worker/cli/dead_letter_view.h"

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>

#include "config/rfc3339.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;

std::string Printable(std::string_view text) {
  std::string clean(text);
  for (auto& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return clean;
}

/// Length of the UTF-8 sequence that begins with `first`, 0 for none.
std::size_t SequenceLength(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t j) { return static_cast<unsigned char>(text[i + j]); };
    const auto length = SequenceLength(at(0));
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((at(j) & 0xC0U) != 0x80U) return false;
    }
    // Longer than needed, a surrogate, or beyond Unicode.
    if ((at(0) == 0xE0 && at(1) < 0xA0) || (at(0) == 0xED && at(1) >= 0xA0) || (at(0) == 0xF0 && at(1) < 0x90) ||
        (at(0) == 0xF4 && at(1) >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4U];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

std::string Shown(std::optional<std::string_view> bytes) {
  if (!bytes) return "(null)";
  return IsUtf8(*bytes) ? Printable(*bytes) : "(hex) " + Hex(*bytes);
}

void Put(json::object& object, const std::string& name, std::optional<std::string_view> bytes) {
  if (!bytes) {
    object[name] = nullptr;
  } else if (IsUtf8(*bytes)) {
    object[name] = *bytes;
  } else {
    object[name + "_hex"] = Hex(*bytes);
  }
}

runtime::WallTime WrittenAt(const FoundLetter& letter) {
  const std::int64_t ms = std::clamp<std::int64_t>(letter.record->timestamp_ms(), 0, 7'258'118'399'999);
  return runtime::WallTime(std::chrono::milliseconds(ms));
}

std::string PlaceOf(const FoundLetter& letter) {
  return std::to_string(letter.partition) + ":" + std::to_string(letter.record->offset());
}

std::string Source(const kafka::DeadLetterFacts& facts) {
  return facts.source.topic + "/" + std::to_string(facts.source.partition) + "@" + std::to_string(facts.source_offset);
}

std::string LastOutcome(const kafka::DeadLetterFacts& facts) {
  if (facts.last_status != 0) return "status " + std::to_string(facts.last_status);
  return facts.last_error.empty() ? std::string("never tried, or its outcome is not known") : Shown(facts.last_error);
}

}  // namespace

bool LetterFilter::Matches(const FoundLetter& letter) const {
  const auto* facts = letter.facts();
  if (subscription && (facts == nullptr || facts->subscription != *subscription)) return false;
  if (reason && (facts == nullptr || facts->reason != *reason)) return false;
  const auto written = WrittenAt(letter);
  if ((since && written < *since) || (until && written >= *until)) return false;
  return places.empty() ||
         std::find(places.begin(), places.end(), std::pair(letter.partition, letter.record->offset())) != places.end();
}

std::string ToLine(const FoundLetter& letter) {
  const auto begin = PlaceOf(letter) + "  " + config::FormatRfc3339(WrittenAt(letter)) + "  ";
  const auto* facts = letter.facts();
  if (facts == nullptr) return begin + "no dead letter of Posthorn's: " + Printable(std::get<std::string>(letter.said));
  return begin + facts->subscription + "  " + delivery::ToString(facts->reason) + "  " + Source(*facts) + "  " +
         std::to_string(facts->attempts) + (facts->attempts == 1 ? " attempt, " : " attempts, ") + LastOutcome(*facts);
}

std::string ToText(const FoundLetter& letter) {
  std::string text = PlaceOf(letter) + "\n";
  const auto add = [&text](std::string_view name, const std::string& value) {
    text += "  ";
    text += name;
    text.append(name.size() < 14 ? 14 - name.size() : 1, ' ');
    text += value + "\n";
  };
  add("written", config::FormatRfc3339(WrittenAt(letter)));
  if (const auto* facts = letter.facts()) {
    add("subscription", facts->subscription);
    add("reason", delivery::ToString(facts->reason));
    add("message", Source(*facts));
    add("attempts", std::to_string(facts->attempts));
    if (facts->first_attempt) add("first attempt", config::FormatRfc3339(*facts->first_attempt));
    if (facts->last_attempt) add("last attempt", config::FormatRfc3339(*facts->last_attempt));
    add("outcome", LastOutcome(*facts));
  } else {
    add("problem", Printable(std::get<std::string>(letter.said)));
  }
  for (const auto& header : letter.record->headers()) {
    if (letter.facts() != nullptr && kafka::IsDeadLetterHeader(header.name)) continue;
    add("header", Printable(header.name) + ": " + Shown(header.value));
  }
  add("key", Shown(letter.record->key()));
  const auto value = letter.record->value();
  add("value", (value ? std::to_string(value->size()) + " bytes: " : std::string()) + Shown(value));
  return text;
}

std::string ToJson(const FoundLetter& letter, bool whole) {
  json::object object{{"at", PlaceOf(letter)}, {"written", config::FormatRfc3339(WrittenAt(letter))}};
  if (const auto* facts = letter.facts()) {
    object["subscription"] = facts->subscription;
    object["reason"] = delivery::ToString(facts->reason);
    object["topic"] = facts->source.topic;
    object["partition"] = facts->source.partition;
    object["offset"] = facts->source_offset;
    object["attempts"] = facts->attempts;
    if (facts->first_attempt) object["first_attempt"] = config::FormatRfc3339(*facts->first_attempt);
    if (facts->last_attempt) object["last_attempt"] = config::FormatRfc3339(*facts->last_attempt);
    if (facts->last_status != 0) object["last_status"] = facts->last_status;
    if (!facts->last_error.empty()) Put(object, "last_error", facts->last_error);
  } else {
    object["problem"] = Printable(std::get<std::string>(letter.said));
  }
  const auto value = letter.record->value();
  object["bytes"] = value ? value->size() : 0;
  if (whole) {
    json::array headers;
    for (const auto& header : letter.record->headers()) {
      if (letter.facts() != nullptr && kafka::IsDeadLetterHeader(header.name)) continue;
      json::object one;
      Put(one, "name", header.name);
      Put(one, "value", header.value);
      headers.push_back(std::move(one));
    }
    object["headers"] = std::move(headers);
    Put(object, "key", letter.record->key());
    Put(object, "value", value);
  }
  return json::serialize(object);
}

}  // namespace posthorn::cli
