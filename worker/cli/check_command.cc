#include "worker/cli/check_command.h"

#include <CLI/CLI.hpp>
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

#include "config/effective.h"
#include "config/reference.h"
#include "config/sources/file_source.h"

namespace posthorn::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFaulty = 1;
constexpr int kUsage = 2;

// All that is checked together: any number of deployments, and one revision made of all subscriptions' documents.
class Check {
 public:
  Check(const CheckArguments& arguments, const config::Capabilities& capabilities)
      : arguments_(arguments), capabilities_(capabilities) {}

  int Run(std::ostream& out, std::ostream& err) {
    if (!arguments_.config.empty()) {
      AddDeployment(arguments_.config);
      if (deployment_) AddFile(deployment_->subscriptions_file, false);
    }
    for (const std::string& file : arguments_.files) AddFile(file, true);
    if (!arguments_.overrides.empty() && !saw_deployment_) {
      err << "--set changes a deployment file, and none is checked\n";
      return kUsage;
    }
    AddSubscriptions();
    if (!faults_.empty()) {
      err << config::ToString(faults_) << faults_.size() << (faults_.size() == 1 ? " fault\n" : " faults\n");
      return kFaulty;
    }
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

  void AddFile(const std::string& file, bool may_be_deployment) {
    config::FileSource source(file, {.inotify = false});
    constexpr std::chrono::seconds kPatience{5};  // with a file that changes while it is read
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
  bool saw_deployment_ = false;
  bool saw_subscriptions_ = false;
  std::optional<config::Deployment> deployment_;
  std::map<std::string, std::string> documents_;
  std::vector<config::Fault> faults_;
  std::string effective_;
  std::string notes_;
};

}  // namespace

int RunCheck(const CheckArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
             std::ostream& err) {
  if (arguments.files.empty() == arguments.config.empty()) {
    err << "either FILE... or --config FILE is needed; see check --help\n";
    return kUsage;
  }
  return Check(arguments, capabilities).Run(out, err);
}

void AddCheckCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  CLI::App* check = app.add_subcommand(
      "check",
      "Validates configuration and prints what is in force, secrets masked. All faults go to stderr, exit code 1");
  auto arguments = std::make_shared<CheckArguments>();
  check->add_option("FILE", arguments->files,
                    "Subscriptions files or directories of them (checked as one revision), or a deployment file");
  check->add_option("--config,-c", arguments->config, "A deployment file: checked with the subscriptions it names");
  check->add_option("--set", arguments->overrides, "key=value over the deployment file; may be given again and again")
      ->allow_extra_args(false);
  check->footer("Options of the files:\n\n" + config::OptionsHelp());
  check->callback(
      [arguments, capabilities, &exit_code] { exit_code = RunCheck(*arguments, capabilities, std::cout, std::cerr); });
}

}  // namespace posthorn::cli
