#pragma once

#include <string>
#include <string_view>

#include "config/model.h"

namespace posthorn::config {

/// What is in force, as YAML of the same form as the files, every option named, secrets as `***`. Text without
/// masked values reads back as the same value.
///
/// A header's or Kafka setting's value is masked when its name looks like a secret's, or when it came from `file:` or
/// an environment variable (Subscription::secret_headers, Deployment::secret_kafka).
std::string EffectiveYaml(const Deployment& deployment);
std::string EffectiveYaml(const Snapshot& snapshot);

/// authorization, cookie, *token*, *key*, *secret*, *password*, *credential*; any case.
bool LooksSecret(std::string_view name);

}  // namespace posthorn::config
