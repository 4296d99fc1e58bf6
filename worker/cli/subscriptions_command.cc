#include "worker/cli/subscriptions_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <utility>

#include "config/difference.h"
#include "config/rfc3339.h"
#include "config/sources/file_reader.h"
#include "config/units.h"
#include "worker/cli/document_store.h"
#include "worker/cli/exit_code.h"
#include "worker/runtime/log.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;
using Action = SubscriptionsArguments::Action;

constexpr const char* kTemplate = "subscriptions:\n  - name: \n    topic: \n    endpoint: https://\n";

std::string TimeText(std::int64_t ms) {
  return ms < 0 ? "-" : config::FormatRfc3339(runtime::WallTime(std::chrono::milliseconds(ms)));
}

/// What somebody wrote into a record does not reach a terminal as it is.
std::string PrintableLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + PrintableLine(text);
  return all;
}

void PrintTable(std::ostream& out, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << row[i];
      if (i + 1 < row.size()) out << std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out << '\n';
  }
}

json::array JsonList(const std::vector<std::string>& texts) {
  json::array list;
  for (const auto& text : texts) list.emplace_back(text);
  return list;
}

/// The editor's own terminal and exit code. False: it could not be started, or says that it failed.
bool RunEditor(const std::string& file) {
  const char* editor = std::getenv("VISUAL");
  if (editor == nullptr || *editor == 0) editor = std::getenv("EDITOR");
  if (editor == nullptr || *editor == 0) editor = "vi";
  const std::string command = std::string(editor) + " \"$1\"";
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), "sh", file.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A file of its own that only this user can read, named like the document so that editors know what it is.
std::string NewFile(const std::string& name, const std::string& text) {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  if (error) folder = "/tmp";
  std::string path = (folder / ("posthorn-XXXXXX-" + name)).string();
  const int file = mkstemps(path.data(), static_cast<int>(name.size() + 1));
  if (file < 0) return {};
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written ? path : std::string();
}

std::optional<std::string> ReadWhole(std::istream& stream) {
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return std::nullopt;
  return text;
}

class Subscriptions {
 public:
  Subscriptions(DocumentStore store, const SubscriptionsArguments& arguments, std::ostream& out, std::ostream& err)
      : store_(std::move(store)), arguments_(arguments), out_(out), err_(err) {}

  int Run() {
    switch (arguments_.action) {
      case Action::kList:
        return List();
      case Action::kGet:
        return Get();
      case Action::kPut:
        return Put();
      case Action::kDelete:
        return Delete();
      case Action::kEdit:
        return Edit();
      case Action::kHistory:
        return History();
    }
    return kUsage;
  }

 private:
  int Cannot(const std::string& why, int code = kCannot) {
    err_ << "posthorn subscriptions: " << why << '\n';
    return code;
  }

  int List() {
    const auto log = store_.Read();
    if (!log) return kCannot;
    const auto documents = log->Documents();
    json::array list;
    std::vector<std::vector<std::string>> rows{{"NAME", "REVISION", "OFFSET", "WRITTEN", "BY", "SUBSCRIPTIONS"}};
    for (const auto& [name, text] : documents) {
      const auto& change = *log->Find(name);
      const auto revision = DocumentRevision(name, text);
      const auto subscriptions = SubscriptionsIn(text);
      rows.push_back({name, revision, std::to_string(change.offset), TimeText(change.timestamp_ms),
                      PrintableLine(change.author), Joined(subscriptions)});
      list.push_back(json::object{{"name", name},
                                  {"revision", revision},
                                  {"offset", change.offset},
                                  {"written", TimeText(change.timestamp_ms)},
                                  {"by", change.author},
                                  {"bytes", text.size()},
                                  {"subscriptions", JsonList(subscriptions)}});
    }
    const auto revision = config::Digest(documents);
    if (arguments_.json) {
      out_ << json::serialize(json::object{{"topic", store_.topic()},
                                           {"revision", revision},
                                           {"number", log->newest},
                                           {"foreign_records", log->foreign},
                                           {"documents", std::move(list)}})
           << '\n';
      return kDone;
    }
    PrintTable(out_, rows);
    out_ << documents.size() << (documents.size() == 1 ? " document" : " documents") << ", revision " << revision;
    if (log->newest >= 0) out_ << ", number " << log->newest;
    if (log->foreign != 0) out_ << "; " << log->foreign << " records of " << store_.topic() << " are no documents";
    out_ << '\n';
    return kDone;
  }

  /// The name as given, or with the ending that makes it a document's.
  static std::string Resolve(const std::map<std::string, std::string>& documents, const std::string& given) {
    for (const char* ending : {"", ".yaml", ".yml", ".json"}) {
      if (documents.contains(given + ending)) return given + ending;
    }
    return given;
  }

  int Get() {
    const auto log = store_.Read();
    if (!log) return kCannot;
    const auto name = Resolve(log->Documents(), arguments_.name);
    const auto wanted = [&](const kafka::DocumentChange& change) {
      return change.name == name && change.text && change.offset == arguments_.offset;
    };
    const kafka::DocumentChange* found = log->Find(name);
    if (arguments_.offset) {
      const auto at = std::find_if(log->changes.begin(), log->changes.end(), wanted);
      found = at == log->changes.end() ? nullptr : &*at;
    }
    if (found == nullptr) {
      return Cannot(arguments_.offset ? name + " was not put at offset " + std::to_string(*arguments_.offset) +
                                            ", or Kafka has forgotten it (see history)"
                                      : "there is no document " + name);
    }
    const auto revision = DocumentRevision(name, *found->text);
    if (arguments_.json) {
      out_ << json::serialize(json::object{{"name", name},
                                           {"revision", revision},
                                           {"offset", found->offset},
                                           {"written", TimeText(found->timestamp_ms)},
                                           {"by", found->author},
                                           {"text", *found->text}})
           << '\n';
      return kDone;
    }
    out_ << *found->text;
    err_ << name << ": revision " << revision << ", written " << TimeText(found->timestamp_ms) << " by "
         << PrintableLine(found->author) << '\n';
    return kDone;
  }

  int History() {
    const auto log = store_.Read();
    if (!log) return kCannot;
    std::vector<std::vector<std::string>> rows{{"OFFSET", "WRITTEN", "NAME", "WHAT", "REVISION", "BYTES", "BY"}};
    const auto only = arguments_.name.empty() ? "" : Resolve(log->Documents(), arguments_.name);
    for (const auto& change : log->changes) {
      if (!only.empty() && change.name != only) continue;
      const auto revision = change.text ? DocumentRevision(change.name, *change.text) : "";
      const auto bytes = change.text ? change.text->size() : 0;
      const char* what = change.text ? "put" : "delete";
      if (arguments_.json) {
        out_ << json::serialize(json::object{{"offset", change.offset},
                                             {"written", TimeText(change.timestamp_ms)},
                                             {"name", change.name},
                                             {"what", what},
                                             {"revision", revision},
                                             {"bytes", bytes},
                                             {"by", change.author}})
             << '\n';
        continue;
      }
      rows.push_back({std::to_string(change.offset), TimeText(change.timestamp_ms), change.name, what,
                      change.text ? revision : "-", std::to_string(bytes), PrintableLine(change.author)});
    }
    if (!arguments_.json) PrintTable(out_, rows);
    return kDone;
  }

  /// Adds what a path holds to the changes. False: `*code` was said.
  bool Collect(const std::string& path, DocumentChanges& changes, int* code) {
    std::map<std::string, std::string> found;
    std::error_code error;
    const bool directory = std::filesystem::is_directory(path, error);
    if (path == "-") {
      const auto text = ReadWhole(std::cin);
      if (text) found["-"] = *text;
    } else {
      const auto full = std::filesystem::absolute(path, error).string();
      auto reading = config::ReadDocuments(full);
      if (reading.state != config::Reading::State::kRead) {
        *code = Cannot(path + ": " + (reading.why.empty() ? "changes while it is read" : reading.why));
        return false;
      }
      found = std::move(reading.files);
    }
    for (auto& [file, text] : found) {
      std::string given = directory ? file : std::filesystem::path(path).filename().string();
      if (!arguments_.name.empty()) given = arguments_.name;
      const auto name = DocumentNameFor(given);
      if (name.empty()) {
        *code = Cannot(given +
                           " cannot be a document's name: letters, digits, `.`, `_`, `-` (--name NAME gives another "
                           "one)",
                       kUsage);
        return false;
      }
      if (name != given) err_ << "note: " << given << " is the document " << name << '\n';
      if (!changes.emplace(name, std::move(text)).second) {
        *code = Cannot("two of the files are the document " + name, kUsage);
        return false;
      }
    }
    return true;
  }

  int Put() {
    int code = kDone;
    DocumentChanges changes;
    for (const auto& path : arguments_.paths) {
      if (!Collect(path, changes, &code)) return code;
    }
    if (changes.empty()) return Cannot("there is no document in what was given");
    return Change({{std::move(changes), arguments_.expect, std::nullopt},
                   EffectiveIn(),
                   arguments_.replication,
                   arguments_.dry_run});
  }

  [[nodiscard]] std::optional<std::chrono::milliseconds> EffectiveIn() const {
    return arguments_.effective_in.empty() ? std::nullopt : config::ParseDuration(arguments_.effective_in, nullptr);
  }

  int Delete() {
    const auto log = store_.Read();
    if (!log) return kCannot;
    const auto name = Resolve(log->Documents(), arguments_.name);
    return Change({{{{name, std::nullopt}}, arguments_.expect, std::nullopt}, {}, {}, arguments_.dry_run});
  }

  int Edit() {
    const auto log = store_.Read();
    if (!log) return kCannot;
    const auto documents = log->Documents();
    const auto name = DocumentNameFor(Resolve(documents, arguments_.name));
    if (name.empty()) return Cannot(arguments_.name + " cannot be a document's name", kUsage);
    const auto found = documents.find(name);
    const std::string before = found == documents.end() ? kTemplate : found->second;
    const std::string revision = found == documents.end() ? "none" : DocumentRevision(name, before);
    const auto path = NewFile(name, before);
    if (path.empty()) return Cannot("no file can be written for the editor");
    const auto keep = [&](int code) {
      err_ << "your text is in " << path << "; go on with: posthorn subscriptions put --name " << name << " --expect "
           << revision << " " << path << '\n';
      return code;
    };
    if (!RunEditor(path)) return keep(Cannot("the editor failed ($VISUAL, $EDITOR or vi)"));
    std::ifstream stream(path, std::ios::binary);
    auto text = ReadWhole(stream);
    if (!stream.is_open() || !text) return keep(Cannot("the edited file cannot be read"));
    if (*text == before) {
      std::filesystem::remove(path);
      err_ << name << " is as it was, nothing was written\n";
      return kDone;
    }
    const int code = Change({{{{name, std::move(*text)}}, revision, std::nullopt}, EffectiveIn(), {}, false});
    if (code != kDone) return keep(code);
    std::filesystem::remove(path);
    return kDone;
  }

  int Change(const DocumentStore::Change& change) {
    const auto changed = store_.Apply(change);
    if (!changed) return kCannot;
    const auto& judged = changed->judged;
    for (const auto& note : judged.notes) err_ << "note: " << note << '\n';
    const auto revision = config::Digest(change.dry_run ? judged.documents : changed->log.Documents());
    json::array list;
    std::string lines;
    for (const auto& [name, text] : change.request.changes) {
      const bool written = judged.changes.contains(name);
      const char* what = !written ? "unchanged" : text ? "put" : "deleted";
      const auto found = judged.documents.find(name);
      const auto own = found == judged.documents.end() ? "" : DocumentRevision(name, found->second);
      list.push_back(json::object{{"name", name}, {"change", what}, {"revision", own}});
      lines += name + ": " + what + (own.empty() ? "" : ", revision " + own) + "\n";
    }
    const std::string difference =
        judged.before && judged.after ? config::DifferenceText(*judged.before, *judged.after) : std::string();
    if (arguments_.json) {
      out_ << json::serialize(json::object{{"topic", store_.topic()},
                                           {"revision", revision},
                                           {"number", changed->log.newest},
                                           {"written", !change.dry_run && !judged.changes.empty()},
                                           {"documents", std::move(list)},
                                           {"difference", difference}})
           << '\n';
      return kDone;
    }
    out_ << difference << lines;
    if (change.dry_run) {
      out_ << "all documents would have revision " << revision << "; nothing was written (--dry-run)\n";
    } else {
      out_ << "all documents: revision " << revision << ", number " << changed->log.newest << '\n';
    }
    return kDone;
  }

  DocumentStore store_;
  const SubscriptionsArguments& arguments_;
  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace

int RunSubscriptions(const SubscriptionsArguments& arguments, const config::Capabilities& capabilities,
                     std::ostream& out, std::ostream& err) {
  const auto usage = [&](const std::string& why) {
    err << "posthorn subscriptions: " << why << '\n';
    return kUsage;
  };
  std::string why;
  if (!arguments.effective_in.empty() && !config::ParseDuration(arguments.effective_in, &why)) {
    return usage("--effective-in " + why);
  }
  const bool standard_input = std::count(arguments.paths.begin(), arguments.paths.end(), "-") != 0;
  if (standard_input && arguments.name.empty()) return usage("what comes from standard input needs a --name");
  if (!arguments.name.empty() && arguments.action == Action::kPut && arguments.paths.size() != 1) {
    return usage("--name is for one FILE");
  }
  runtime::ConfigureLog(runtime::LogLevel::kError, false);
  const auto deployment = config::LoadDeployment(arguments.files.config, arguments.files.overrides);
  if (!deployment) {
    err << config::ToString(deployment.faults);
    return kCannot;
  }
  auto store = DocumentStore::Open(*deployment.value, capabilities, err);
  if (!store) return kCannot;
  return Subscriptions(std::move(*store), arguments, out, err).Run();
}

void AddSubscriptionsCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  CLI::App* subscriptions =
      app.add_subcommand("subscriptions", "The subscriptions in a Kafka topic: list, get, put, delete, edit, history");
  subscriptions->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, Action action) {
    CLI::App* command = subscriptions->add_subcommand(name, what);
    auto arguments = std::make_shared<SubscriptionsArguments>();
    arguments->action = action;
    AddFleetFilesOptions(*command, arguments->files);
    const bool changes = action == Action::kPut || action == Action::kDelete || action == Action::kEdit;
    if (action == Action::kPut) {
      command->add_option("FILE", arguments->paths, "Documents, directories of them, or - for standard input")
          ->required();
      command->add_option("--name", arguments->name, "Name of the one document; its file's name otherwise");
      command->add_option("--replication", arguments->replication,
                          "Replicas of the topic where it is made now; as the brokers have it otherwise");
    } else if (action != Action::kList) {
      auto* option = command->add_option("NAME", arguments->name, "A document, as `list` shows it");
      if (action != Action::kHistory) option->required();
    }
    if (action == Action::kPut || action == Action::kDelete) {
      command->add_option("--expect", arguments->expect,
                          "Only if this revision is in force, of the document or of all (`list` shows both); `none`: "
                          "only if there is no such document");
      command->add_flag("--dry-run", arguments->dry_run, "Say what would change, and write nothing");
    }
    if (action == Action::kPut || action == Action::kEdit) {
      command->add_option("--effective-in", arguments->effective_in,
                          "All workers switch at one instant, so long from now: 5s");
    }
    if (action == Action::kGet) {
      command->add_option("--offset", arguments->offset, "As it was put at this offset, as `history` shows it");
    }
    if (action != Action::kEdit) command->add_flag("--json", arguments->json, "JSON on standard output");
    std::string footer;
    if (changes) {
      footer =
          "The documents are judged as they would be, all together, before anything is written; with one fault "
          "nothing\n"
          "is. Several FILEs become one revision. Who else changes the topic with this command at the same time is\n"
          "noticed: nothing that was not seen is overwritten. Workers take the revision within a second.\n";
    }
    if (action == Action::kEdit) {
      footer +=
          "Opens the document, or a new one, with $VISUAL, $EDITOR or vi; refused when it was changed meanwhile.\n";
    }
    if (action == Action::kPut) footer += "The first `put` makes the topic.\n";
    command->footer(footer + "Exit code: 0 done, 1 cannot and why on stderr, 2 wrong usage.");
    command->callback([arguments, capabilities, &exit_code] {
      exit_code = RunSubscriptions(*arguments, capabilities, std::cout, std::cerr);
    });
  };
  add("list", "The documents, their revisions and subscriptions", Action::kList);
  add("get", "Prints a document; its revision goes to standard error", Action::kGet);
  add("put", "Writes documents", Action::kPut);
  add("delete", "Removes a document", Action::kDelete);
  add("edit", "Changes a document with your editor", Action::kEdit);
  add("history", "Who put and deleted what and when: the last week, and what is in force", Action::kHistory);
}

}  // namespace posthorn::cli
