#pragma once

#include <string>

#include "config/option_table.h"

namespace posthorn::config {

/// The JSON Schema (draft 2020-12) of one of the two files, from the option table: for editors, which complete keys,
/// show what they mean and underline what is wrong. It accepts whatever the loader accepts; what it cannot say (ranges
/// of durations, rules between documents, names that must be known) only the loader refuses.
std::string JsonSchema(Document document);

}  // namespace posthorn::config
