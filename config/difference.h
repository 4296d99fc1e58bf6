#pragma once

#include <string>

#include "config/model.h"

namespace posthorn::config {

/// What taking `after` in place of `before` changes, for people, one line each and secrets masked:
///
///   + invoices                  a subscription that is added, below it what it says beyond the defaults
///   - audit                     one that is removed
///   ~ billing                   one that is changed, below it
///       max_rate: 500/s -> 300/s
///   ~ instances: 3 -> 5         what stands beside the subscriptions; `limits.NAME.max_rate` too
///
/// Empty: nothing. A masked value that is another one is said to be.
std::string DifferenceText(const Snapshot& before, const Snapshot& after);

/// The same where of the first only its effective YAML is known (a worker's /config): masked values count as equal.
std::string DifferenceText(const std::string& before_yaml, const Snapshot& after);

}  // namespace posthorn::config
