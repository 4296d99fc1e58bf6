// `Retry-After` of an endpoint: nothing, or a wait within its bounds, whatever the text and whatever the time.
#include <string>
#include <string_view>

#include "tests/fuzz/require.h"
#include "worker/http/response_class.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace std::chrono_literals;
  using posthorn::http::kMaxRetryAfter;
  using posthorn::http::ParseRetryAfter;
  using posthorn::ratelimit::WallTime;
  using posthorn::test::Require;
  const std::string text(data, data + size);
  for (const auto now : {WallTime(0s), WallTime(1'800'000'000s), WallTime(std::chrono::hours(24 * 365 * 200))}) {
    const auto wait = ParseRetryAfter(text, now);
    if (!wait) continue;
    Require(*wait >= 0ms && *wait <= kMaxRetryAfter, "a wait out of bounds");
    Require(ParseRetryAfter(" \t" + text + " ", now) == wait, "spaces around it count");
    const auto later = ParseRetryAfter(text, now + 1s);
    Require(later && *later <= *wait, "a wait that grows while time passes");
  }
  return 0;
}
