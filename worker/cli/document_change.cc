#include "worker/cli/document_change.h"

#include <memory>
#include <set>
#include <utility>

#include "config/document.h"
#include "config/rfc3339.h"
#include "worker/cli/document_edit.h"
#include "worker/kafka/document_topic.h"

namespace posthorn::cli {
namespace {

/// As `environment`, with every file there; those that are not are noted.
config::Environment WithAllFiles(const config::Environment& environment,
                                 const std::shared_ptr<std::set<std::string>>& missing) {
  config::Environment lenient = environment;
  lenient.read_file = [read = environment.read_file, missing](const std::string& path, std::string* why) {
    auto content = read(path, why);
    if (content) return content;
    missing->insert(path);
    return std::optional<std::string>("unread");
  };
  return lenient;
}

std::string Conflict(const Documents& in_force, const ChangeRequest& request) {
  if (request.expect.empty()) return {};
  const std::string whole = config::Digest(in_force);
  if (request.expect == whole) return {};
  if (request.changes.size() != 1) return "the revision of all documents is " + whole + ", not " + request.expect;
  const auto& name = request.changes.begin()->first;
  const auto found = in_force.find(name);
  if (found == in_force.end()) return request.expect == "none" ? "" : name + " is not there (any more)";
  const std::string revision = DocumentRevision(name, found->second);
  if (request.expect == revision) return {};
  return name + " has revision " + revision + ", not " + request.expect + ": somebody has changed it";
}

class Judgement {
 public:
  Judgement(const Documents& in_force, const ChangeRequest& request, runtime::WallTime now)
      : in_force_(in_force), request_(request), now_(now) {}

  JudgedChange Make(const config::Capabilities& capabilities, const config::Environment& environment) {
    judged_.conflict = Conflict(in_force_, request_);
    if (!judged_.conflict.empty()) return std::move(judged_);
    judged_.documents = in_force_;
    for (const auto& [name, text] : request_.changes) {
      if (text) {
        judged_.documents[name] = *text;
      } else if (judged_.documents.erase(name) == 0) {
        judged_.conflict = "there is no document " + name;
        return std::move(judged_);
      }
    }
    if (request_.effective_at) SetEffectiveAt(*request_.effective_at);
    if (judged_.documents != in_force_) TakeOutPassed();
    Load(capabilities, environment);
    for (const auto& [name, text] : judged_.documents) {
      const auto found = in_force_.find(name);
      if (found == in_force_.end() || found->second != text) judged_.changes[name] = text;
    }
    for (const auto& [name, text] : in_force_) {
      if (!judged_.documents.contains(name)) judged_.changes[name] = std::nullopt;
    }
    return std::move(judged_);
  }

 private:
  void Fault(const std::string& file, std::string rule) {
    judged_.faults.push_back({file, 0, 0, "effective_at", "", std::move(rule), ""});
  }

  // One document only may have it, and one that has passed has done what it was for: with it, whatever comes later
  // would count as late.
  void TakeOutPassed() {
    for (auto& [name, text] : judged_.documents) {
      if (request_.changes.contains(name)) continue;
      const auto passed = config::ParseRfc3339(EffectiveAtOf(text));
      const auto without = passed && *passed <= now_ ? WithoutEffectiveAt(text) : std::nullopt;
      if (!without) continue;
      text = *without;
      judged_.notes.push_back("the `effective_at` of " + name + " has passed and is taken out");
    }
  }

  void SetEffectiveAt(runtime::WallTime at) {
    const std::string* target = nullptr;
    for (const auto& [name, text] : request_.changes) {
      if (text && (target == nullptr || !EffectiveAtOf(*text).empty())) target = &name;
    }
    if (target == nullptr) return;
    auto& text = judged_.documents[*target];
    // Windows are whole seconds.
    if (auto with = WithEffectiveAt(text, config::FormatRfc3339(std::chrono::ceil<std::chrono::seconds>(at)))) {
      text = std::move(*with);
    } else {
      Fault(*target, "cannot be written into this document: write it there yourself");
    }
  }

  void Load(const config::Capabilities& capabilities, const config::Environment& environment) {
    const auto missing = std::make_shared<std::set<std::string>>();
    const auto lenient = WithAllFiles(environment, missing);
    judged_.before = in_force_.empty() ? config::Snapshot()  // all that comes is new
                                       : config::LoadSubscriptions(in_force_, capabilities, lenient).value;
    missing->clear();
    auto loaded = config::LoadSubscriptions(judged_.documents, capabilities, lenient);
    for (auto& fault : loaded.faults) judged_.faults.push_back(std::move(fault));
    if (judged_.faults.empty()) judged_.after = std::move(loaded.value);
    auto far = judged_.after ? config::FarAheadNote(*judged_.after, now_) : std::string();
    if (!far.empty()) judged_.notes.push_back(std::move(far));
    for (const auto& path : *missing) {
      judged_.notes.push_back(path + " cannot be read here: every worker must be able to");
    }
  }

  const Documents& in_force_;
  const ChangeRequest& request_;
  const runtime::WallTime now_;
  JudgedChange judged_;
};

}  // namespace

std::string DocumentRevision(const std::string& name, const std::string& text) {
  return config::Digest({{name, text}});
}

std::string DocumentNameFor(const std::string& given) {
  for (const std::string& name : {given, given + ".yaml"}) {
    if (kafka::IsDocumentKey(name)) return name;
  }
  return {};
}

std::vector<std::string> SubscriptionsIn(const std::string& text) {
  std::vector<std::string> names;
  std::vector<config::Fault> ignored;
  for (const auto& root : config::ParseDocuments("", text, ignored)) {
    const auto* list = root.Find("subscriptions");
    if (list == nullptr) continue;
    for (const auto& item : list->items) {
      if (const auto* name = item.Find("name"); name != nullptr) names.push_back(name->text);
    }
  }
  return names;
}

JudgedChange Judge(const Documents& in_force, const ChangeRequest& request, const config::Capabilities& capabilities,
                   runtime::WallTime now, const config::Environment& environment) {
  return Judgement(in_force, request, now).Make(capabilities, environment);
}

}  // namespace posthorn::cli
