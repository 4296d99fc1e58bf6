#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "config/effective.h"
#include "config/rfc3339.h"
#include "worker/admin/pages.h"

namespace posthorn::admin {
namespace {

namespace json = boost::json;

std::int64_t SecondsSince(std::chrono::steady_clock::time_point then, runtime::SteadyTime now) {
  return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(now - then).count());
}

/// Text of others must not end a comment line.
std::string OnOneLine(std::string text) {
  for (auto& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

json::value RefusedObject(const config::WatchState& state) {
  if (!state.last_refused) return nullptr;
  json::array faults;
  for (const auto& fault : state.last_refused->faults) {
    faults.push_back(json::object{{"file", fault.file},
                                  {"line", fault.line},
                                  {"column", fault.column},
                                  {"path", fault.path},
                                  {"value", fault.value},
                                  {"rule", fault.rule},
                                  {"hint", fault.hint}});
  }
  return json::object{{"digest", state.last_refused->digest},
                      {"number", state.last_refused->source_revision},
                      {"newest", state.newest_refused},
                      {"faults", std::move(faults)}};
}

json::value ScheduledObject(const config::WatchState& state) {
  if (!state.scheduled) return nullptr;
  return json::object{{"digest", state.scheduled->digest},
                      {"number", state.scheduled->source_revision},
                      {"effective_at", config::FormatRfc3339(*state.scheduled->effective_at)},
                      {"yaml", config::EffectiveYaml(*state.scheduled)}};
}

std::string AsJson(const config::SnapshotPtr& running, const config::WatchState& state, runtime::SteadyTime now) {
  json::value revision = nullptr;
  if (running) {
    revision = json::object{{"digest", running->digest},
                            {"number", running->source_revision},
                            {"age_seconds", SecondsSince(state.accepted_at, now)},
                            {"yaml", config::EffectiveYaml(*running)}};
  }
  return json::serialize(json::object{{"running", std::move(revision)},
                                      {"last_good", state.last_good},
                                      {"scheduled", ScheduledObject(state)},
                                      {"last_refused", RefusedObject(state)},
                                      {"source", state.source},
                                      {"source_failure", state.source_failure}}) +
         "\n";
}

std::string AsYaml(const config::SnapshotPtr& running, const config::WatchState& state, runtime::SteadyTime now) {
  std::string page;
  if (running) {
    page += "# running revision " + running->digest;
    if (!running->source_revision.empty()) page += ", number " + OnOneLine(running->source_revision);
    page += (state.last_good ? ", kept on disk, accepted " : ", accepted ") +
            std::to_string(SecondsSince(state.accepted_at, now)) + " s ago\n";
  } else {
    page += "# no revision was accepted yet\n";
  }
  if (!state.source_failure.empty()) {
    page += "# the source, " + OnOneLine(state.source) + ", cannot be read: " + OnOneLine(state.source_failure) + "\n";
  }
  if (state.scheduled) {
    page += "# revision " + state.scheduled->digest + " is in force from " +
            config::FormatRfc3339(*state.scheduled->effective_at) + " on; ?format=json shows it\n";
  }
  if (state.last_refused) {
    const auto& number = state.last_refused->source_revision;
    page += "# refused revision " + state.last_refused->digest + (number.empty() ? "" : ", number ") +
            OnOneLine(number) + (state.newest_refused ? ", the newest one:\n" : ", before the running one:\n");
    for (const auto& fault : state.last_refused->faults) {
      page += "#   " + OnOneLine(config::ToString(fault)) + "\n";
    }
  }
  if (running) page += config::EffectiveYaml(*running);
  return page;
}

}  // namespace

Response ConfigPage(const WorkerView& view, const Request& request) {
  const auto state = view.config();
  const auto now = view.clock->Read().steady;
  const auto* format = request.Query("format");
  if (format != nullptr && *format == "json") return {200, "application/json", AsJson(view.snapshot(), state, now)};
  return {200, "text/plain; charset=utf-8", AsYaml(view.snapshot(), state, now)};
}

}  // namespace posthorn::admin
