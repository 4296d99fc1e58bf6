#include "config/rules.h"

#include <algorithm>
#include <array>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>

#include "config/effective.h"
#include "config/rfc3339.h"

namespace posthorn::config {
namespace {

constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";

bool Within(std::string_view set, char c) { return set.find(c) != std::string_view::npos; }

bool IsTopicCharacter(char c) {
  return Within(kLower, c) || Within(kUpper, c) || Within(kDigits, c) || Within("._-", c);
}

// RFC 9110, token.
bool IsTokenCharacter(char c) {
  return Within(kLower, c) || Within(kUpper, c) || Within(kDigits, c) || Within("!#$%&'*+-.^_`|~", c);
}

std::string CheckKafkaName(std::string_view name, std::size_t longest) {
  if (name.empty()) return "is needed";
  if (name == "." || name == "..") return "`.` and `..` are no names";
  if (name.size() > longest) return "at most " + std::to_string(longest) + " characters";
  if (!std::all_of(name.begin(), name.end(), IsTopicCharacter)) return "letters, digits, `.`, `_` and `-` only";
  return {};
}

// Set by Posthorn or by the HTTP connection: a copy from the configuration would contradict them.
constexpr std::array<std::string_view, 13> kOwnHeaders{
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer",
     "upgrade", "expect", "accept-encoding", "http2-settings", "proxy-authorization"}};

std::string CheckOwnHeader(std::string_view lower) {
  if (lower.starts_with("webhook-") || lower.starts_with("posthorn-")) return "Posthorn sets this header itself";
  if (std::find(kOwnHeaders.begin(), kOwnHeaders.end(), lower) != kOwnHeaders.end()) {
    return "this header belongs to the connection";
  }
  return {};
}

constexpr std::array<std::string_view, 6> kOwnKafkaSettings{{"group.id", "group.instance.id", "enable.auto.commit",
                                                             "enable.auto.offset.store", "auto.commit.interval.ms",
                                                             "partition.assignment.strategy"}};

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (Within(kUpper, c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string CheckName(std::string_view name) {
  constexpr std::size_t kLongest = 128;
  const auto allowed = [](char c) { return Within(kLower, c) || Within(kDigits, c); };
  if (name.empty()) return "is needed";
  if (name.size() > kLongest) return "at most 128 characters";
  if (!allowed(name.front())) return "begins with a-z or 0-9";
  if (!std::all_of(name.begin(), name.end(), [&](char c) { return allowed(c) || c == '.' || c == '-'; })) {
    return "a-z, 0-9, `.` and `-` only";
  }
  return {};
}

std::string CheckTopic(std::string_view topic) { return CheckKafkaName(topic, 249); }

// Leaves room for `.dead-letters` and a subscription's name behind it.
std::string CheckFleet(std::string_view fleet) { return CheckKafkaName(fleet, 100); }

std::string CheckInstance(std::string_view instance) { return CheckKafkaName(instance, 249); }

std::string CheckHost(std::string_view host) {
  const auto allowed = [](char c) { return IsTopicCharacter(c) || c == ':'; };
  if (host.empty() || host.size() > 253 || !std::all_of(host.begin(), host.end(), allowed))
    return "needs a host's name";
  return {};
}

std::string CheckAddress(std::string_view address) {
  const std::string rule = "needs host:port, like 127.0.0.1:8080 or [::1]:8080";
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return rule;
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 4) return rule;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return rule;
  }
  if (!CheckHost(host).empty()) return rule;
  unsigned number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) return rule;
  if (number > 65535) return "a port is 0 to 65535";
  return {};
}

bool HoldsCredentials(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return Within(url, '@');
  const std::string_view authority = url.substr(scheme + 3, url.find_first_of("/?#", scheme + 3) - (scheme + 3));
  return Within(authority, '@');
}

std::string CheckEndpoint(std::string_view url) {
  constexpr std::size_t kLongest = 8192;
  if (HoldsCredentials(url)) return "no user or password in a URL: use `headers: { authorization: file:/path }`";
  if (url.size() > kLongest) return "at most 8192 characters";
  const auto parsed = boost::urls::parse_uri({url.data(), url.size()});
  if (!parsed) return "needs an http or https URL";
  const boost::urls::url_view& view = *parsed;
  const std::string scheme = LowerCase(std::string_view(view.scheme().data(), view.scheme().size()));
  if (scheme != "http" && scheme != "https") return "needs an http or https URL";
  if (!view.has_authority() || view.encoded_host().empty()) return "the URL needs a host";
  if (view.has_fragment()) return "a fragment is never sent: leave out `#...`";
  if (view.has_port()) {
    unsigned number = 0;
    const std::string_view port(view.port().data(), view.port().size());
    const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
    if (read.ec != std::errc() || number == 0 || number > 65535) return "a port is 1 to 65535";
  }
  return {};
}

std::string CheckServer(std::string_view url) {
  if (std::string rule = CheckEndpoint(url); !rule.empty()) return rule;
  std::string_view rest = url.substr(url.find("://") + 3);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?") != std::string_view::npos) return "needs the server alone: no path after host and port";
  return {};
}

std::string CheckPathSegment(std::string_view name) {
  const auto allowed = [](char c) { return IsTopicCharacter(c) || c == '+'; };
  if (name == "." || name == "..") return "`.` and `..` are no names";
  if (name.size() > 249 || !std::all_of(name.begin(), name.end(), allowed)) {
    return "letters, digits, `.`, `_`, `-` and `+` only";
  }
  return {};
}

std::string CheckPathPattern(std::string_view pattern) {
  const auto allowed = [](char c) { return IsTopicCharacter(c) || Within("+/*,", c); };
  if (!pattern.starts_with('/')) return "begins with `/`";
  if (pattern.size() > 4096 || !std::all_of(pattern.begin(), pattern.end(), allowed)) {
    return "letters, digits, `.`, `_`, `-`, `+`, `/` and `*` only; a comma between several";
  }
  return {};
}

std::string CheckSourceHeader(std::string_view name) {
  const std::string lower = LowerCase(name);
  if (lower == "if-none-match" || lower == "if-modified-since") return "Posthorn sets this header itself";
  return CheckHeaderName(name);
}

std::string CheckHeaderName(std::string_view name) {
  if (name.empty() || name.size() > 256 || !std::all_of(name.begin(), name.end(), IsTokenCharacter)) {
    return "no name of a header: letters, digits and `-`";
  }
  return CheckOwnHeader(LowerCase(name));
}

std::string CheckHeaderValue(std::string_view value) {
  constexpr std::size_t kLongest = 16384;
  if (value.size() > kLongest) return "at most 16384 characters";
  const auto forbidden = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  };
  if (std::any_of(value.begin(), value.end(), forbidden)) return "no line breaks or control characters in a header";
  if (!value.empty() && (Within(" \t", value.front()) || Within(" \t", value.back()))) {
    return "no blanks at the ends of a header's value";
  }
  return {};
}

std::string CheckForwardPattern(std::string_view pattern) {
  std::string_view name = pattern;
  const bool prefix = name.ends_with('*');
  if (prefix) name.remove_suffix(1);
  if (pattern.empty() || name.find('*') != std::string_view::npos)
    return "a header's name, or a prefix and one final `*`";
  if (!std::all_of(name.begin(), name.end(), IsTokenCharacter)) return "a header's name, or a prefix and one final `*`";
  const std::string lower = LowerCase(name);
  if (prefix && !lower.starts_with("webhook-") && !lower.starts_with("posthorn-")) return {};
  return CheckOwnHeader(lower);
}

std::string CheckKafkaSetting(std::string_view name) {
  const auto allowed = [](char c) { return Within(kLower, c) || Within(kDigits, c) || Within("._", c); };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    return "no librdkafka setting: they are written like `bootstrap.servers`";
  }
  if (std::find(kOwnKafkaSettings.begin(), kOwnKafkaSettings.end(), name) != kOwnKafkaSettings.end()) {
    return "Posthorn decides this setting itself";
  }
  return {};
}

std::string CheckKafkaValue(std::string_view value) {
  if (value.find('\0') != std::string_view::npos) return "no zero bytes in a setting";
  return {};
}

std::string CheckMoment(std::string_view time) {
  if (!ParseRfc3339(time)) return "needs a time like 2026-11-21T08:15:30Z";
  return {};
}

bool IsPublicKafkaSetting(std::string_view name) {
  return name == "bootstrap.servers" || name == "metadata.broker.list" || name == "client.id" || name == "client.rack";
}

bool LooksSecret(std::string_view name) {
  const std::string lower = LowerCase(name);
  constexpr std::array<std::string_view, 9> kParts{
      {"authorization", "cookie", "token", "key", "secret", "password", "passwd", "credential", "oauthbearer.config"}};
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

}  // namespace posthorn::config
