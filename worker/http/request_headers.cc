#include "worker/http/request_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "worker/http/blanks.h"

namespace posthorn::http {

void HeaderLines::Clear() {
  text_.clear();
  starts_.clear();
}

void HeaderLines::Append(std::string_view name, std::string_view value) {
  starts_.push_back(text_.size());
  text_.append(name);
  if (value.empty()) {
    text_.push_back(';');
  } else {
    text_.append(": ");
    text_.append(value);
  }
  text_.push_back('\0');
}

void HeaderLines::Append(std::string_view name, std::initializer_list<std::string_view> parts) {
  starts_.push_back(text_.size());
  text_.append(name);
  text_.append(": ");
  for (const std::string_view part : parts) text_.append(part);
  text_.push_back('\0');
}

void HeaderLines::Append(std::string_view name, std::int64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  Append(name, std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsLower(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) { return Lower(a) == b; });
}

bool StartsWithLower(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && EqualsLower(text.substr(0, lower.size()), lower);
}

std::string ToLower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

bool IsTokenChar(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

constexpr std::size_t kMaxIdLength = 256;

bool IsMessageId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdLength &&
         std::all_of(id.begin(), id.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
}

constexpr std::array<std::string_view, 14> kFraming{
    "connection", "content-length", "expect",   "host",    "http2-settings",    "keep-alive",      "proxy-authenticate",
    "te",         "trailer",        "trailers", "upgrade", "transfer-encoding", "accept-encoding", "proxy-connection"};

/// The record's last value of that name when it may go into a request.
std::string_view FromRecord(const delivery::Record& record, std::string_view lower) {
  const auto& headers = record.headers();
  for (auto it = headers.rbegin(); it != headers.rend(); ++it) {
    if (!EqualsLower(it->name, lower)) continue;
    if (!it->value || !IsHeaderValue(*it->value)) return {};
    return TrimBlanks(*it->value);
  }
  return {};
}

}  // namespace

bool IsHeaderName(std::string_view name) {
  return !name.empty() && name.size() <= 256 && std::all_of(name.begin(), name.end(), IsTokenChar);
}

bool IsHeaderValue(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

bool IsReservedHeader(std::string_view name) {
  if (StartsWithLower(name, "webhook-") || StartsWithLower(name, "posthorn-")) return true;
  return std::any_of(kFraming.begin(), kFraming.end(), [&](std::string_view f) { return EqualsLower(name, f); });
}

RequestHeaders::RequestHeaders(const config::Subscription& subscription, std::string_view user_agent)
    : content_type_("application/octet-stream") {
  for (const auto& [name, raw_value] : subscription.headers) {
    if (!IsHeaderName(name) || !IsHeaderValue(raw_value) || IsReservedHeader(name)) continue;
    const std::string_view value = TrimBlanks(raw_value);
    if (EqualsLower(name, "content-type")) {
      content_type_ = std::string(value);
      continue;
    }
    fixed_.Append(name, value);
    fixed_names_.push_back(ToLower(name));
  }
  if (!IsFixed("user-agent")) fixed_.Append("user-agent", user_agent);
  if (IsHeaderValue(subscription.name)) fixed_.Append("posthorn-subscription", subscription.name);
  for (const std::string& pattern : subscription.forward_headers) {
    const bool prefix = !pattern.empty() && pattern.back() == '*';
    forward_.emplace_back(ToLower(prefix ? std::string_view(pattern).substr(0, pattern.size() - 1) : pattern), prefix);
  }
}

void RequestHeaders::AppendTo(const delivery::Message& message, HeaderLines& out) const {
  const delivery::Record& record = *message.record;
  const bool plain = record.headers().empty();

  const std::string_view content_type = plain ? std::string_view{} : FromRecord(record, "content-type");
  out.Append("content-type", content_type.empty() ? std::string_view(content_type_) : content_type);

  const std::string_view id = plain ? std::string_view{} : FromRecord(record, "webhook-id");
  if (IsMessageId(id)) {
    out.Append("webhook-id", id);
  } else {
    const auto& source = record.source(*message.partition);
    out.Append("webhook-id",
               {source.topic, "-", std::to_string(source.partition), "-", std::to_string(record.source_offset())});
  }
  out.Append("webhook-timestamp", std::chrono::floor<std::chrono::seconds>(message.now.time_since_epoch()).count());
  out.Append("posthorn-attempt", std::int64_t{message.attempt_number});
  if (!record.value()) out.Append("posthorn-null", "true");
  if (plain) return;

  if (!IsFixed("traceparent")) {
    const std::string_view trace = FromRecord(record, "traceparent");
    if (!trace.empty()) out.Append("traceparent", trace);
  }
  if (forward_.empty()) return;
  std::size_t room = kMaxForwardedBytes;
  for (const delivery::HeaderView& header : record.headers()) {
    if (!header.value || !Forwards(header.name) || !IsHeaderName(header.name) || !IsHeaderValue(*header.value) ||
        IsReservedHeader(header.name) || IsFixed(header.name)) {
      continue;
    }
    if (EqualsLower(header.name, "content-type") || EqualsLower(header.name, "traceparent") ||
        EqualsLower(header.name, "user-agent")) {
      continue;
    }
    const std::string_view value = TrimBlanks(*header.value);
    const std::size_t size = header.name.size() + value.size() + 4;
    if (size > room) continue;
    room -= size;
    out.Append(header.name, value);
  }
}

bool RequestHeaders::Forwards(std::string_view name) const {
  return std::any_of(forward_.begin(), forward_.end(), [&](const auto& pattern) {
    return pattern.second ? StartsWithLower(name, pattern.first) : EqualsLower(name, pattern.first);
  });
}

bool RequestHeaders::IsFixed(std::string_view name) const {
  return std::any_of(fixed_names_.begin(), fixed_names_.end(),
                     [&](const std::string& fixed) { return EqualsLower(name, fixed); });
}

}  // namespace posthorn::http
