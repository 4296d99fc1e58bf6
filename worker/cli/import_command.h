#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "config/load.h"

namespace CLI {
class App;
}

namespace posthorn::cli {

struct ImportArguments {
  std::string from;             // a file, `-` for standard input, or a URL
  std::string kafka_namespace;  // of Hermes
};

/// The body of a 200 of a GET; unset: `*why` says why not, with the URL but nothing secret of it.
using FetchUrl = std::function<std::optional<std::string>(const std::string& url, std::string* why)>;

/// `posthorn import hermes`: the subscriptions file on `out`, what has no counterpart also on `err`.
/// Returns the exit code: 0 done, 1 cannot and why on `err`, 2 wrong usage.
int RunImportHermes(const ImportArguments& arguments, const config::Capabilities& capabilities, const FetchUrl& fetch,
                    std::ostream& out, std::ostream& err);

void AddImportCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities);

}  // namespace posthorn::cli
