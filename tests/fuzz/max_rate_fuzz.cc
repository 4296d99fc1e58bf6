// The max-rate parser: a text is refused with a reason, or means a rate that reads back from what is shown of it.
#include <string>
#include <string_view>

#include "ratelimit/max_rate.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using posthorn::ratelimit::MaxRate;
  using posthorn::test::Require;
  const std::string text(data, data + size);
  std::string why;
  const auto rate = MaxRate::Parse(text, &why);
  Require(MaxRate::Parse(text, nullptr) == rate, "another result without a reason");
  if (!rate) {
    Require(!why.empty() && why.find('\n') == std::string::npos, "a refusal is one line");
    return 0;
  }
  const auto again = MaxRate::Parse(rate->ToString(), &why);
  Require(again == rate, "another rate when read back");
  Require(rate->PerSecond() >= 0 && rate->PerSecond() <= MaxRate::kMaxPerSecond, "out of range");
  for (const std::int64_t w : {std::int64_t{0}, std::int64_t{1'800'000'000}, std::int64_t{1} << 36}) {
    const auto total = rate->Total(w);
    Require(total >= 0 && total <= MaxRate::kMaxPerSecond, "a window out of range");
    Require(rate->CumulativeAt(w + 1) - rate->CumulativeAt(w) == total, "a window off the line");
  }
  return 0;
}
