#pragma once

#include <memory>
#include <string>

#include "config/model.h"
#include "config/sources/source.h"

namespace posthorn::cli {

/// The source of the deployment's subscriptions, the one over a Kafka topic included. Null: cannot be made, and why.
std::unique_ptr<config::Source> MakeConfigSource(const config::Deployment& deployment, std::string* why);

}  // namespace posthorn::cli
