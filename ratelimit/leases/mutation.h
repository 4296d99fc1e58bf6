#pragma once

#include <cstdint>

namespace posthorn::ratelimit {

/// One rule of the leases taken away, so that the tests of the promise can show that they would notice.
///
/// For tests only: production code never names anything but kNone, which is every default. A value that runs through
/// the very code that ships, rather than a template policy: what is explored and fuzzed is then the object code of
/// production, no logic moves into headers, and the price is one comparison that is always false.
enum class Mutation : std::uint8_t {
  kNone,
  kFreeBeforeAck,           // a sent smaller share counts at once, as if the worker had it already
  kGrowthIgnoresFree,       // shares follow the target whatever others may still hold; nothing is checked when sending
  kSuccessorWithoutReplay,  // a new coordinator starts with an empty ledger
  kNaiveAck,                // an ack lowers the labels before the acker's own as well
  kReraiseToExposure,       // above the total, a share may rise again to all that the worker is counted for
  kFallbackNotCounted,      // what slots use without a lease is missing in the ledger
  kUnfencedLog,             // grants of superseded coordinators are taken
  kAnyOrder,                // a worker takes older grants after newer ones
};

}  // namespace posthorn::ratelimit
