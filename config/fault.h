#pragma once

#include <string>
#include <vector>

namespace posthorn::config {

/// One thing wrong with a configuration: where, what was found, and the rule it breaks. All faults of a revision are
/// reported together; one is enough to refuse it whole.
///
/// Units   `line` and `column` count from 1; 0: not known (a key that is missing, an environment, a whole file).
/// Errors  `value` never holds a secret: it is `***` where the option may be one.
struct Fault {
  std::string file;  // as named by the source, or `--set`
  int line = 0;
  int column = 0;
  std::string path;   // `subscriptions[2].timeout`; empty: the whole file
  std::string value;  // as written; empty: not told
  std::string rule;   // what holds for this place
  std::string hint;   // the nearest known key, or what to write instead; may be empty
  bool operator==(const Fault&) const = default;
};

/// `file:line:column: path: "value": rule (hint)`, on one line.
std::string ToString(const Fault& fault);

/// One line per fault, each ended by a newline.
std::string ToString(const std::vector<Fault>& faults);

}  // namespace posthorn::config
