// What one Acquire costs, with 1 and 2 threads on one limiter, admitted and denied, beside the same count under a
// std::mutex. Neither reads a clock: whoever asks has read it once for a whole wake-up.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <mutex>

#include "ratelimit/limiter.h"

namespace posthorn::ratelimit {
namespace {

constexpr Label kFirst = 1'793'000'000;

Limiter MakeLimiter(const char* rate, Burst burst) {
  return Limiter({MaxRate::Parse(rate, nullptr).value(), burst, SlotDealing{0, 1}}, {}, StartOf(kFirst - 10));
}

// All threads stay in one window, whose cap is beyond what a run can take: a thread that ran ahead into the next one
// would have the others come late.
void Admitted(benchmark::State& state, Limiter& limiter, Nanoseconds offset) {
  std::int64_t denied = 0;
  for (auto _ : state) {
    const Decision decision = limiter.Acquire(StartOf(kFirst) + offset, Nanoseconds(0));
    denied += !std::holds_alternative<ratelimit::Admitted>(decision);
  }
  if (denied > 0) state.SkipWithError("a permit was denied");
}

void Denied(benchmark::State& state, Limiter& limiter, Nanoseconds offset) {
  std::int64_t admitted = 0;
  for (auto _ : state) {
    const Decision decision = limiter.Acquire(StartOf(kFirst) + offset, std::chrono::seconds(5));
    admitted += std::holds_alternative<ratelimit::Admitted>(decision);
  }
  if (admitted > 1) state.SkipWithError("a permit was admitted");
}

// Within a window at the end of its line, before the tail: every permit is open, and the envelope is worked out each
// time.
constexpr Nanoseconds kLineEnd = std::chrono::milliseconds(975);
Limiter at_once = MakeLimiter("2000000000/s", Burst::kAtOnce);
Limiter smooth = MakeLimiter("2000000000/s", Burst::kSmooth);
Limiter none_left = MakeLimiter("0", Burst::kAtOnce);
Limiter not_yet = MakeLimiter("2/s", Burst::kSmooth);

void AcquireAdmittedAtOnce(benchmark::State& state) { Admitted(state, at_once, Nanoseconds(0)); }
void AcquireAdmittedSmooth(benchmark::State& state) { Admitted(state, smooth, kLineEnd); }
void AcquireDeniedUsedUp(benchmark::State& state) { Denied(state, none_left, Nanoseconds(0)); }
void AcquireDeniedNotYet(benchmark::State& state) { Denied(state, not_yet, std::chrono::milliseconds(5)); }

// The least a limiter under a lock has to do.
class MutexCounter {
 public:
  bool Take(Label w, std::int64_t cap) {
    const std::lock_guard lock(mutex_);
    if (w > label_) {
      label_ = w;
      used_ = 0;
    }
    if (used_ >= cap) return false;
    ++used_;
    return true;
  }

 private:
  std::mutex mutex_;
  Label label_ = 0;
  std::int64_t used_ = 0;
};
MutexCounter under_mutex;

void MutexCounterAdmitted(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(under_mutex.Take(kFirst, MaxRate::kMaxPerSecond));
}
void MutexCounterDenied(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(under_mutex.Take(kFirst, 0));
}

BENCHMARK(AcquireAdmittedAtOnce)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(AcquireAdmittedSmooth)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(MutexCounterAdmitted)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(AcquireDeniedUsedUp)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(AcquireDeniedNotYet)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(MutexCounterDenied)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace posthorn::ratelimit
