#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ratelimit/leases/lease_ledger.h"

namespace posthorn::ratelimit {

/// A worker that is to get a share, and what it could start per window.
struct Wish {
  const LeaseLedger::Holder* holder = nullptr;
  std::int64_t demand = 0;  // any value: negative counts as 0, above the total as the total
};

/// The share of each wish in each label of [first, end), as the ledger allows it now: to be sent as they are.
///
/// The target of a label is max-min fair by demand; what nobody asks for is spread equally, so that nobody under the
/// limit ever waits. A worker above its target is cut to it at once, one below grows only into permits that nobody may
/// still hold: what is cut becomes free when the cut is acknowledged. From two labels ahead a twentieth of a total of
/// 20 and more is kept back for those who come. A worker without demand keeps one permit where there are two for
/// everybody.
///
/// Depends on nothing but its arguments: with the same demands and no grant under way the same shares come out again.
///
/// Cost     O(n log n) per label.
std::vector<std::vector<std::int64_t>> PlanShares(const LeaseLedger& ledger, std::span<const Wish> wishes, Label first,
                                                  Label end, Mutation mutation = Mutation::kNone);

/// Whether `shares` are worth a grant: the lease would otherwise end before `first + shares.size()`, or a label changes
/// by 2 % of its total (`urgent`: by anything).
bool WorthSending(const LeaseLedger& ledger, const LeaseLedger::Holder& holder, Label first,
                  std::span<const std::int64_t> shares, bool urgent);

}  // namespace posthorn::ratelimit
