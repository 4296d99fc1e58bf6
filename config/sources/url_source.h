#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "config/environment.h"
#include "config/source_settings.h"
#include "config/sources/source.h"
#include "ratelimit/time.h"

namespace posthorn::config {

struct UrlTiming {
  std::chrono::milliseconds unconditional{60'000};
  std::chrono::milliseconds etag_settles{2'000};  // after it was first seen; 0: it is believed at once
  std::chrono::milliseconds answer_within{10'000};
  std::chrono::milliseconds whole_within{30'000};
};

/// One document behind a URL, fetched every `every` (a tenth more or less, so that a fleet does not ask in step). Asks
/// with the ETag it has, so that nothing is sent where nothing has changed. An ETag made of time and size does not tell
/// two changes within a second apart: a new one is believed once the document was read again 2 s after it was first
/// seen, and once a minute the document is read whatever the ETag.
///
/// Time     A change is read within `every`, where the server's ETag tells nothing within a minute.
/// Errors   Failed with the status or what is wrong with the connection. 401 and 403 will not mend by themselves;
///          `Retry-After` is handed on. Redirects: at most five, never from https to http.
/// Secrets  The headers are read anew for every request, and go to the URL's own host, port and scheme alone.
/// Memory   16 MiB at most, whatever is sent.
class UrlSource final : public Source {
 public:
  explicit UrlSource(UrlSettings settings, const Environment& environment = SystemEnvironment(), UrlTiming timing = {});
  ~UrlSource() override;

  Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) override;
  std::string Describe() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a `Retry-After` header says, seconds or a date; nullopt: nothing that can be read. Not below 0.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, ratelimit::WallTime now);

}  // namespace posthorn::config
