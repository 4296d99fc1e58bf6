#include "worker/cli/check_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <stop_token>
#include <utility>
#include <variant>

#include "config/difference.h"
#include "config/document.h"
#include "config/effective.h"
#include "config/reference.h"
#include "config/rules.h"
#include "config/sources/file_source.h"
#include "worker/cli/exit_code.h"

namespace posthorn::cli {
namespace {

constexpr int kFaulty = kCannot;

constexpr std::chrono::seconds kPatience{10};  // with a source

// Its cluster is never asked.
constexpr const char* kBareDeployment = "fleet: check\nkafka: { bootstrap.servers: localhost:9092 }\n";

/// Where the worker of a deployment answers on this machine; empty: it cannot be told.
std::string AddressHere(const std::string& admin) {
  const auto colon = admin.rfind(':');
  if (colon == std::string::npos || admin.substr(colon) == ":0") return {};
  const auto host = admin.substr(0, colon);
  if (host == "0.0.0.0") return "127.0.0.1" + admin.substr(colon);
  if (host == "[::]") return "[::1]" + admin.substr(colon);
  return admin;
}

/// The running revision's YAML in the answer of /config?format=json; unset: there is none.
std::optional<std::string> RunningYaml(const std::string& page) {
  std::vector<config::Fault> ignored;
  for (const auto& root : config::ParseDocuments("", page, ignored)) {  // JSON is YAML
    const auto* running = root.Find("running");
    const auto* yaml = running == nullptr ? nullptr : running->Find("yaml");
    if (yaml != nullptr) return yaml->text;
  }
  return std::nullopt;
}

// All that is checked together: any number of deployments, and one revision made of all subscriptions' documents.
class Check {
 public:
  Check(const CheckArguments& arguments, const config::Capabilities& capabilities, const CheckServices& services)
      : arguments_(arguments), capabilities_(capabilities), services_(services) {}

  int Run(std::ostream& out, std::ostream& err) {
    if (!arguments_.config.empty()) AddDeployment(arguments_.config);
    if (!arguments_.source.empty()) UseSource();
    for (const std::string& file : arguments_.files) AddFile(file, true);
    if (arguments_.files.empty() && deployment_) AddSubscriptionsOf(*deployment_);
    if (!arguments_.overrides.empty() && !saw_deployment_) {
      err << "--set changes a deployment file, and none is checked\n";
      return kUsage;
    }
    AddSubscriptions();
    if (!faults_.empty()) {
      err << config::ToString(faults_) << faults_.size() << (faults_.size() == 1 ? " fault\n" : " faults\n");
      return kFaulty;
    }
    if (arguments_.diff) return Diff(out, err);
    out << effective_;
    err << notes_;
    return kDone;
  }

 private:
  void Append(const std::string& title, const std::string& yaml) {
    if (!effective_.empty()) effective_ += "---\n";
    effective_ += "# " + title + "\n" + yaml;
  }

  void AddFaults(std::vector<config::Fault> faults) {
    for (config::Fault& fault : faults) faults_.push_back(std::move(fault));
  }

  void AddDeployment(const std::string& file) {
    saw_deployment_ = true;
    auto loaded = config::LoadDeployment(file, arguments_.overrides);
    if (loaded) Append(file, config::EffectiveYaml(*loaded.value));
    deployment_ = std::move(loaded.value);
    AddFaults(std::move(loaded.faults));
  }

  // `--from KIND key=value...`: in place of the deployment's own source, or without a deployment.
  void UseSource() {
    std::string kind = arguments_.source.front();
    std::replace(kind.begin(), kind.end(), '-', '_');
    if (arguments_.source.size() == 1 && deployment_ && KindOf(*deployment_) == kind) return;  // that of --config
    std::vector<std::string> overrides;
    for (std::size_t i = 1; i < arguments_.source.size(); ++i) {
      overrides.push_back("subscriptions." + kind + "." + arguments_.source[i]);
    }
    const std::string bare = std::string(kBareDeployment) + "subscriptions: { " + kind + ": { } }\n";
    auto loaded = config::LoadDeploymentText("--from", bare, overrides);
    AddFaults(std::move(loaded.faults));
    if (!loaded) return;
    const auto& source = loaded.value->source;
    if (arguments_.config.empty() && source.kind == config::SourceKind::kKafkaTopic &&
        source.kafka_topic.kafka.empty()) {
      faults_.push_back({"--from", 0, 0, "kafka.bootstrap.servers", "", "is needed where there is no --config", ""});
      return;
    }
    if (arguments_.config.empty()) {
      deployment_ = std::move(loaded.value);
    } else if (deployment_) {
      deployment_->source = std::move(loaded.value->source);
    }
  }

  /// As the deployment file names it.
  static std::string KindOf(const config::Deployment& deployment) {
    const auto text = config::ToString(deployment.source);
    return text.substr(0, text.find(' '));
  }

  void AddSubscriptionsOf(const config::Deployment& deployment) {
    if (arguments_.from) {
      if (auto files = ReadSource(deployment)) {
        saw_subscriptions_ = true;
        documents_ = std::move(*files);
      }
    } else if (deployment.source.kind == config::SourceKind::kFile) {
      if (!arguments_.config.empty()) AddFile(deployment.source.file, false);
    } else {
      notes_ += "note: the subscriptions are in " + config::ToString(deployment.source) +
                ", which is not asked (--from does)\n";
    }
  }

  std::optional<std::map<std::string, std::string>> ReadSource(const config::Deployment& deployment) {
    const auto fault = [&](const std::string& rule) {
      faults_.push_back({config::ToString(deployment.source), 0, 0, "", "", rule, ""});
      return std::nullopt;
    };
    std::string why = "cannot be asked here";
    const auto source = services_.make_source ? services_.make_source(deployment, &why) : nullptr;
    if (source == nullptr) return fault(why);
    config::Outcome outcome = source->Next("", kPatience, std::stop_token());
    if (auto* changed = std::get_if<config::Changed>(&outcome)) return std::move(changed->snapshot.files);
    const auto* failed = std::get_if<config::Failed>(&outcome);
    return fault("cannot be read: " + (failed != nullptr ? failed->why : std::string("no answer in time")));
  }

  int Diff(std::ostream& out, std::ostream& err) {
    if (!snapshot_) {
      err << "--diff compares subscriptions, and there are none here\n";
      return kUsage;
    }
    const auto say = [&](const std::string& difference, const std::string& with) {
      err << notes_ << "compared with " << with << '\n';
      out << (difference.empty() ? "no difference\n" : difference);
      return kDone;
    };
    const auto address =
        !arguments_.worker.empty() ? arguments_.worker : AddressHere(deployment_ ? deployment_->admin : "");
    std::string why = "no worker's address is known (--diff HOST:PORT)";
    if (!address.empty()) {
      const auto page = services_.ask_worker ? services_.ask_worker(address, "/config?format=json") : std::nullopt;
      const auto yaml = page ? RunningYaml(*page) : std::nullopt;
      if (yaml) return say(config::DifferenceText(*yaml, *snapshot_), "what the worker at " + address + " runs");
      why = "the worker at " + address + (page ? " runs no revision yet" : " does not answer");
    }
    // Files are compared with what the source holds; what the source holds only with a worker.
    if (arguments_.worker.empty() && !arguments_.files.empty() && deployment_) {
      const auto files = ReadSource(*deployment_);
      auto loaded = files ? config::LoadSubscriptions(*files, capabilities_) : config::Loaded<config::Snapshot>();
      if (loaded) return say(config::DifferenceText(*loaded.value, *snapshot_), config::ToString(deployment_->source));
      AddFaults(std::move(loaded.faults));
      err << config::ToString(faults_);
    }
    err << why << '\n';
    return kFaulty;
  }

  void AddFile(const std::string& file, bool may_be_deployment) {
    config::FileSource source(file, {.inotify = false});
    const config::Outcome outcome = source.Next("", kPatience, std::stop_token());
    const auto* changed = std::get_if<config::Changed>(&outcome);
    if (changed == nullptr) {
      const auto* failed = std::get_if<config::Failed>(&outcome);
      // The source's reason begins with the file's name, which a fault has of its own.
      std::string why = failed != nullptr ? failed->why : "changes while it is read";
      if (why.starts_with(file + ": ")) why.erase(0, file.size() + 2);
      faults_.push_back({file, 0, 0, "", "", "cannot be read: " + why, ""});
      return;
    }
    std::error_code error;
    const bool directory = std::filesystem::is_directory(file, error);
    const auto& files = changed->snapshot.files;
    if (may_be_deployment && !directory && config::LooksLikeDeployment(files.begin()->second)) {
      AddDeployment(file);
      return;
    }
    saw_subscriptions_ = true;
    for (const auto& [name, bytes] : files) {
      documents_[directory ? (std::filesystem::path(file) / name).string() : file] = bytes;
    }
  }

  void AddSubscriptions() {
    if (!saw_subscriptions_) return;
    auto loaded = config::LoadSubscriptions(documents_, capabilities_);
    AddFaults(std::move(loaded.faults));
    if (!loaded) return;
    std::string title = "subscriptions";
    for (const auto& [name, bytes] : documents_) title += " " + name;
    // The digest is of names as the worker's source has them, not of these.
    loaded.value->digest.clear();
    Append(title, config::EffectiveYaml(*loaded.value));
    if (deployment_ && !arguments_.config.empty()) AddNotes(*deployment_, *loaded.value);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto far = config::FarAheadNote(*loaded.value, ratelimit::WallTime(now));
    if (!far.empty()) notes_ += "note: " + far + "\n";
    snapshot_ = std::move(loaded.value);
  }

  // No faults: both files are right, and the fleet may be about to grow or shrink.
  void AddNotes(const config::Deployment& deployment, const config::Snapshot& snapshot) {
    if (!snapshot.instances) return;
    if (!deployment.slot) {
      notes_ += "note: `instances` is set, and `instance` ends in no number: this worker has no slot\n";
    } else if (*deployment.slot >= *snapshot.instances) {
      notes_ += "note: slot " + std::to_string(*deployment.slot) + " is outside 0 to " +
                std::to_string(*snapshot.instances - 1) + " (`instances`): this worker has no share\n";
    }
  }

  const CheckArguments& arguments_;
  const config::Capabilities& capabilities_;
  const CheckServices& services_;
  bool saw_deployment_ = false;
  bool saw_subscriptions_ = false;
  std::optional<config::Deployment> deployment_;
  std::map<std::string, std::string> documents_;
  std::optional<config::Snapshot> snapshot_;
  std::vector<config::Fault> faults_;
  std::string effective_;
  std::string notes_;
};

}  // namespace

int RunCheck(const CheckArguments& arguments, const config::Capabilities& capabilities, const CheckServices& services,
             std::ostream& out, std::ostream& err) {
  const auto usage = [&](const char* why) {
    err << why << "; see check --help\n";
    return kUsage;
  };
  const bool source = !arguments.source.empty();
  if (arguments.files.empty() && arguments.config.empty() && !source)
    return usage("FILE..., --config FILE or --from is needed");
  if (arguments.from && !source && arguments.config.empty()) return usage("--from needs a kind of source, or --config");
  if (arguments.from && !arguments.files.empty()) return usage("FILE... and --from exclude each other");
  if (!arguments.files.empty() && !arguments.config.empty() && !arguments.diff) {
    return usage("FILE... and --config exclude each other, but for --diff");
  }
  return Check(arguments, capabilities, services).Run(out, err);
}

void AddCheckCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities,
                     const CheckServices& services) {
  CLI::App* check = app.add_subcommand(
      "check",
      "Validates configuration and prints what is in force, secrets masked. All faults go to stderr, exit code 1");
  auto arguments = std::make_shared<CheckArguments>();
  check->add_option("FILE", arguments->files,
                    "Subscriptions files or directories of them (checked as one revision), or a deployment file");
  check->add_option("--config,-c", arguments->config, "A deployment file: checked with the subscriptions it names");
  check->add_option("--set", arguments->overrides, "key=value over the deployment file; may be given again and again")
      ->allow_extra_args(false);
  const auto* from =
      check
          ->add_option("--from", arguments->source,
                       "Asks the source for the subscriptions: that of --config, or one given as KIND and key=value: "
                       "--from central-dogma url=http://dogma:36462 project=p repository=r path=/s/**, or "
                       "--from kafka-topic name=t kafka.bootstrap.servers=kafka:9092")
          ->expected(0, -1)
          ->type_name("[KIND [KEY=VALUE ...]]");
  const auto* diff = check
                         ->add_option("--diff", arguments->worker,
                                      "Prints what would change: against what the worker at this admin address runs; "
                                      "without one, that of --config, or else what its source holds")
                         ->expected(0, 1)
                         ->type_name("[HOST:PORT]");
  check->footer("Options of the files:\n\n" + config::OptionsHelp());
  check->callback([arguments, capabilities, services, from, diff, &exit_code] {
    arguments->from = from->count() != 0;
    arguments->diff = diff->count() != 0;
    // What CLI11 keeps of an option that was given without a value.
    std::erase(arguments->source, std::string());
    // `--diff FILE`: the option took the file for its own.
    if (!arguments->worker.empty() && !config::CheckAddress(arguments->worker).empty()) {
      arguments->files.push_back(std::exchange(arguments->worker, {}));
    }
    exit_code = RunCheck(*arguments, capabilities, services, std::cout, std::cerr);
  });
}

}  // namespace posthorn::cli
