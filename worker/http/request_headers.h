#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/model.h"
#include "worker/delivery/sender.h"

namespace posthorn::http {

/// Header lines in one reused buffer, each ended by a NUL as C libraries like it. Appending allocates only while the
/// buffer has not seen a request of that size.
class HeaderLines {
 public:
  void Clear();
  /// Appends `name: value`. The caller has checked both.
  void Append(std::string_view name, std::string_view value);
  void Append(std::string_view name, std::int64_t value);
  /// `parts` in a row make the value; together they are not empty.
  void Append(std::string_view name, std::initializer_list<std::string_view> parts);
  [[nodiscard]] std::size_t size() const { return starts_.size(); }
  /// Valid until the next Append or Clear; ends with a NUL. An empty value is written `name;`, libcurl's way to say it.
  [[nodiscard]] const char* line(std::size_t i) const { return text_.data() + starts_[i]; }
  [[nodiscard]] char* line(std::size_t i) { return text_.data() + starts_[i]; }
  [[nodiscard]] std::size_t bytes() const { return text_.size(); }

 private:
  std::string text_;
  std::vector<std::size_t> starts_;
};

/// True for a name that may stand in a request: an RFC 9110 token of at most 256 characters.
[[nodiscard]] bool IsHeaderName(std::string_view name);
/// True when `value` holds no control character but tab: nothing that could end a line or a text.
[[nodiscard]] bool IsHeaderValue(std::string_view value);
/// True for the names nobody but Posthorn and its HTTP library sets: `webhook-*`, `posthorn-*`, and those that frame or
/// route the message or belong to one hop (`host`, `content-length`, `transfer-encoding`, `connection`, `te`, ...).
[[nodiscard]] bool IsReservedHeader(std::string_view name);

/// What the requests of one subscription carry in their headers.
///
/// Every request          `webhook-id`, `webhook-timestamp`, `posthorn-attempt`, `posthorn-subscription`,
/// `content-type`,
///                        `user-agent`, the fixed headers; `posthorn-null: true` when the record's value is null
/// From the record        `content-type` (else the fixed one, else application/octet-stream), `webhook-id` (1 to 256
///                        visible ASCII characters, else `<topic>-<partition>-<offset>`), `traceparent`, and what
///                        `forward_headers` names (whole names or a prefix before `*`, case does not count)
/// Precedence             Posthorn's own, then fixed ones, then the record's: a later one of the same name is left out
/// Never                  a name that is no token, a value with a control character, a null value, a reserved name from
///                        the record or the configuration; nor more than kMaxForwardedBytes from one record (the rest
///                        is left out)
/// Threads                Immutable after construction.
class RequestHeaders {
 public:
  static constexpr std::size_t kMaxForwardedBytes = 32u << 10;

  RequestHeaders(const config::Subscription& subscription, std::string_view user_agent);

  /// Lines that are the same in every request, without content-type.
  [[nodiscard]] const HeaderLines& fixed() const { return fixed_; }
  /// Appends the lines that differ by message.
  void AppendTo(const delivery::Message& message, HeaderLines& out) const;

 private:
  [[nodiscard]] bool Forwards(std::string_view name) const;
  [[nodiscard]] bool IsFixed(std::string_view name) const;

  HeaderLines fixed_;
  std::string content_type_;
  std::vector<std::string> fixed_names_;               // lower case
  std::vector<std::pair<std::string, bool>> forward_;  // lower case; true: a prefix
};

}  // namespace posthorn::http
