#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ratelimit/limiter.h"
#include "worker/fleet/limit_book.h"

namespace posthorn::admin {

/// Adds up the permits of each limit over its windows: a Limiter remembers two windows only.
///
/// Exact when Update comes at least once per window; windows missed in between are not counted, never counted twice.
/// Threads  One at a time.
class PermitMeter {
 public:
  void Update(const std::vector<fleet::LimitBook::View>& limits, ratelimit::WallTime now);
  /// Permits taken under that limit since it was first seen; 0 when it is not known.
  [[nodiscard]] std::uint64_t Total(const std::string& limit) const;

 private:
  struct Reading {
    std::weak_ptr<ratelimit::Limiter> limiter;
    ratelimit::Label label = 0;  // the newest window read
    std::int64_t used = 0;       // in it, so far
    std::uint64_t total = 0;
  };
  std::map<std::string, Reading> readings_;
};

}  // namespace posthorn::admin
