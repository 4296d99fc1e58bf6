#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "ratelimit/time.h"
#include "worker/delivery/sender.h"

namespace posthorn::http {

/// What a status code means for the message: the table "What a response means" of docs/delivery.md as a function.
///
/// 2xx delivered · 429, 502, 503, 504 overload · 3xx, 408, 425, other 5xx and what is no final status (below 200, above
/// 599) retry · 410 rejected, always · every other 4xx rejected, or retry when `retry_client_errors` is set.
[[nodiscard]] delivery::Verdict Classify(int status, bool retry_client_errors);

/// No Retry-After asks for more than this; what does is taken as this much.
inline constexpr std::chrono::milliseconds kMaxRetryAfter = std::chrono::hours(24 * 365);

/// The wait a `Retry-After` value asks for, counted from `now`.
///
/// Forms    Whole seconds (`120`), or an HTTP date in the three forms of RFC 9110 5.6.7: `Sun, 06 Nov 1994 08:49:37
/// GMT`,
///          `Sunday, 06-Nov-94 08:49:37 GMT` (a two-digit year is the latest one at most 50 years ahead),
///          `Sun Nov  6 08:49:37 1994`. Spaces and tabs around it do not count.
/// Results  nullopt for anything else: empty, `-1`, `+1`, `1.5`, impossible dates, text around a date. 0 for `0` and
/// for
///          a date that has passed (1970). Never negative; kMaxRetryAfter for more than that (10^18).
[[nodiscard]] std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, ratelimit::WallTime now);

}  // namespace posthorn::http
