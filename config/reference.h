#pragma once

#include <string>

namespace posthorn::config {

/// docs/configuration.md, from the option table. A test compares the page in the tree with it.
std::string ReferencePage();

/// Every option with type, default and help, for `posthorn check --help`. At most 100 columns.
std::string OptionsHelp();

}  // namespace posthorn::config
