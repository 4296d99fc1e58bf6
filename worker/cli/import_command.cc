#include "worker/cli/import_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <utility>
#include <variant>

#include "config/sources/http_client.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/hermes_import.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;

std::optional<std::string> Fetch(const std::string& url, std::string* why) {
  config::HttpClient client;
  config::HttpRequest request;
  request.url = url;
  request.headers = {{"accept", "application/json"}};
  request.most_redirects = 3;
  request.compressed = true;
  const auto outcome = client.Do(request, std::stop_token());
  if (const auto* answer = std::get_if<config::HttpAnswer>(&outcome)) {
    if (answer->status == 200) return answer->body;
    *why = config::ShownUrl(url) + " answered " + std::to_string(answer->status);
  } else if (const auto* failure = std::get_if<config::HttpFailure>(&outcome)) {
    *why = config::ShownUrl(url) + ": " + failure->why;
  }
  return std::nullopt;
}

/// Follows Hermes's management API down from any place of it: /topics, a topic's /subscriptions, a subscription.
class Walk {
 public:
  explicit Walk(const FetchUrl& fetch) : fetch_(fetch) {}

  std::optional<std::string> From(std::string url, std::string* why) {
    while (url.ends_with('/')) url.pop_back();
    if (url.find('/', url.find("://") + 3) == std::string::npos) url += "/topics";
    if (!Get(url, why)) return std::nullopt;
    return std::move(found_);
  }

 private:
  bool Get(const std::string& url, std::string* why) {
    const auto body = fetch_(url, why);
    if (!body) return false;
    json::error_code failed;
    const auto value = json::parse(*body, failed);
    const auto* list = failed ? nullptr : value.if_array();
    const bool names = list != nullptr && !list->empty() &&
                       std::all_of(list->begin(), list->end(), [](const auto& item) { return item.is_string(); });
    if (!names) {
      found_ += *body + "\n";
      return true;
    }
    for (const auto& item : *list) {
      const std::string below = url + "/" + std::string(item.as_string().c_str());
      if (!Get(url.ends_with("/topics") ? below + "/subscriptions" : below, why)) return false;
    }
    return true;
  }

  const FetchUrl& fetch_;
  std::string found_;
};

}  // namespace

int RunImportHermes(const ImportArguments& arguments, const config::Capabilities& capabilities, const FetchUrl& fetch,
                    std::ostream& out, std::ostream& err) {
  const auto cannot = [&](const std::string& why) {
    err << "posthorn import: " << why << '\n';
    return kCannot;
  };
  std::string text;
  if (arguments.from.starts_with("http://") || arguments.from.starts_with("https://")) {
    std::string why;
    auto found = Walk(fetch).From(arguments.from, &why);
    if (!found) return cannot(why);
    text = std::move(*found);
  } else if (arguments.from == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  } else {
    std::ifstream file(arguments.from, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (!file.is_open() || file.bad() || text.empty()) return cannot(arguments.from + ": cannot be read, or is empty");
  }
  const auto imported = ImportHermes(text, arguments.kafka_namespace, capabilities);
  if (!imported.error.empty()) return cannot(imported.error);
  out << imported.yaml;
  for (const auto& note : imported.notes) err << note << '\n';
  err << imported.taken << (imported.taken == 1 ? " subscription" : " subscriptions");
  if (imported.left_out != 0) err << ", " << imported.left_out << " left out (they stand there as comments)";
  if (imported.others != 0) err << "; " << imported.others << " other JSON objects (topics, groups) were passed over";
  err << '\n';
  if (imported.taken + imported.left_out == 0) return cannot("there is no subscription of Hermes in it");
  return kDone;
}

void AddImportCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  CLI::App* import = app.add_subcommand("import", "Subscriptions of another system as a subscriptions file");
  import->require_subcommand(1);
  CLI::App* hermes = import->add_subcommand("hermes", "From Hermes: its management API, or what was exported from it");
  auto arguments = std::make_shared<ImportArguments>();
  hermes
      ->add_option("FROM", arguments->from,
                   "A file of JSON (subscriptions as the management API has them, in lists or one after the other; or "
                   "the ZooKeeper nodes .../subscriptions/NAME, with or without their paths), - for standard input, "
                   "or the URL of the management API, of a topic's /subscriptions there or of one subscription")
      ->required();
  hermes->add_option("--kafka-namespace", arguments->kafka_namespace,
                     "Hermes's kafka.namespace: its topics are called NAMESPACE_GROUP.TOPIC in Kafka");
  hermes->footer(
      "The subscriptions file goes to standard output, what has no counterpart into its comments and to standard\n"
      "error. What would get other messages than before (batches, filters, OAuth, a password in the URL) comes out\n"
      "paused, what cannot be a subscription here as a comment. Look through it, then: posthorn check FILE\n"
      "Exit code: 0 done, 1 cannot and why on stderr, 2 wrong usage.");
  hermes->callback([arguments, capabilities, &exit_code] {
    exit_code = RunImportHermes(*arguments, capabilities, &Fetch, std::cout, std::cerr);
  });
}

}  // namespace posthorn::cli
