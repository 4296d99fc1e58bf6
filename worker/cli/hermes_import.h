#pragma once

#include <string>
#include <vector>

#include "config/load.h"

namespace posthorn::cli {

struct HermesImport {
  std::string yaml;                // a subscriptions file, with what has no counterpart as comments
  std::vector<std::string> notes;  // the same for the terminal: `SUBSCRIPTION: what`; never a secret
  int taken = 0;
  int left_out = 0;   // written as comments: they cannot be subscriptions here
  int others = 0;     // JSON objects that are no subscriptions (topics, groups)
  std::string error;  // empty: the text could be read
};

/// Subscriptions as Hermes has them (one JSON object or many, in lists, one a line, or behind the paths of their
/// ZooKeeper nodes) as a subscriptions file that means the same as far as that can be said.
///
/// `kafka_namespace`: Hermes's `kafka.namespace`, which its topics' names in Kafka begin with; may be empty.
/// What would get other messages than before (a batch, filters, OAuth) comes out paused.
HermesImport ImportHermes(const std::string& text, const std::string& kafka_namespace,
                          const config::Capabilities& capabilities);

}  // namespace posthorn::cli
