#include "worker/simulation/load_scenario.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "config/document.h"
#include "config/units.h"
#include "worker/simulation/field_reader.h"
#include "worker/simulation/random.h"

namespace posthorn::simulation {
namespace {

using config::Node;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Field kFields[] = {
    {"", "name", "text", "Title of the charts"},
    {"", "about", "text", "What it shows; printed in the summary"},
    {"", "seed", "number, 1", "The only source of chance: the same scenario gives the same run"},
    {"", "strategy", "static, adaptive, hermes or fraction; adaptive",
     "Who shares the max-rate out; --strategy overrides it"},
    {"", "duration", "duration, 60s", "Whole seconds that are shown"},
    {"", "warm_up", "duration, 5s", "Time before second 0, with the load of second 0; not shown"},
    {"", "tick", "duration, 10ms", "Workers look for something to send so often; 1ms to 20ms"},
    {"", "max_rate", "rate, needed", "Of the whole fleet: 500/s, 30/min, 0.2/s"},
    {"", "burst", "smooth or window; smooth", "How permits open within a second"},
    {"", "config_delay", "duration, 500ms", "Everybody has learned of a new max-rate within this; up to 900ms"},
    {"", "clock_offset", "duration, 0ms", "Clocks are off by up to this, either way; up to 450ms"},
    {"", "lease", "windows, 10", "adaptive: length of a lease"},
    {"", "fallback", "none or slot; none", "adaptive: what a worker without a lease has"},
    {"", "takeover", "duration, 6s", "adaptive: from a coordinator's death until the next one claims its log"},
    {"", "plan_every", "duration, 20ms", "adaptive: at most so often"},
    {"", "network", "map", "Between workers and coordinator"},
    {"", "workers", "list, needed", "Groups of equal workers"},
    {"", "events", "list", "What changes, and when"},
    {"network", "delay", "duration, 5ms", "Of a message one way, at least"},
    {"network", "delay_most", "duration, 20ms", "At most; evenly between"},
    {"network", "loss", "share, 0%", "Messages that get lost"},
    {"network", "repeated", "share, 0%", "Messages that arrive twice"},
    {"workers[]", "name", "text, needed", "Of the group; its workers are NAME-0, NAME-1, ..., or NAME when it is one"},
    {"workers[]", "count", "number, 1", "Workers"},
    {"workers[]", "arrivals", "rate, 0", "Messages for each of them"},
    {"workers[]", "arrivals_of_all", "rate", "Instead: messages for the group, shared out by `zipf`"},
    {"workers[]", "zipf", "number, 0", "Exponent: worker k gets as much as 1/(k+1)^zipf; 0: all the same"},
    {"workers[]", "backlog", "number, 0", "Messages that each has at the start of the warm-up"},
    {"workers[]", "endpoint_time", "duration, 20ms", "Of a request"},
    {"workers[]", "max_in_flight", "number, 1000", "Requests at a time"},
    {"events[]", "at", "duration, needed", "Since second 0"},
    {"events[]", "workers", "name or list", "Groups or workers that the next keys are about"},
    {"events[]", "process", "stop, kill or start", "stop: in good order. Its messages wait until it is started again"},
    {"events[]", "restart", "duration", "stop, and start after this"},
    {"events[]", "arrivals", "rate", "Messages for each from here on"},
    {"events[]", "backlog", "number", "So many messages more for each"},
    {"events[]", "endpoint_time", "duration", "From here on"},
    {"events[]", "max_rate", "rate", "From here on"},
    {"events[]", "coordinator", "kill", "adaptive: the coordinator dies"},
    {"events[]", "network", "map", "From here on; keys left out are as at the start"},
};

constexpr std::size_t kMostWorkers = 100'000;
constexpr std::int64_t kMostMessages = 1'000'000'000;
// Workers, labels: a run keeps one entry for each.
constexpr std::int64_t kMostCells = 20'000'000;

class Loader {
 public:
  Loader(std::string_view file, std::vector<config::Fault>& faults) : file_(file), faults_(faults) {}

  void ReadTop(const Node& top) {
    FieldReader fields = Section(top, "", "");
    fields.Text("name", scenario_.name);
    fields.Text("about", scenario_.about);
    std::int64_t number = 1;
    if (fields.Integer("seed", number, 0, kMostMessages)) scenario_.seed = static_cast<std::uint64_t>(number);
    std::size_t word = 0;
    if (fields.Word("strategy", word, kStrategyNames)) scenario_.strategy = static_cast<Strategy>(word);
    fields.Duration("duration", scenario_.duration, seconds(1), hours(24));
    if (scenario_.duration % seconds(1) != seconds(0)) fields.AddFault("duration", "needs whole seconds");
    fields.Duration("warm_up", scenario_.warm_up, seconds(0), hours(24));
    if (scenario_.warm_up % seconds(1) != seconds(0)) fields.AddFault("warm_up", "needs whole seconds");
    fields.Duration("tick", scenario_.tick, milliseconds(1), milliseconds(20));
    if (!fields.Has("max_rate")) fields.AddFault("max_rate", "is needed");
    fields.Rate("max_rate", scenario_.max_rate);
    constexpr std::string_view kBursts[] = {"smooth", "window"};
    if (fields.Word("burst", word, kBursts)) scenario_.smooth = word == 0;
    fields.Duration("config_delay", scenario_.config_delay, seconds(0), milliseconds(900));
    fields.Duration("clock_offset", scenario_.clock_offset, seconds(0), milliseconds(450));
    if (fields.Integer("lease", number, 1, 64)) scenario_.lease = static_cast<int>(number);
    constexpr std::string_view kFallbacks[] = {"none", "slot"};
    if (fields.Word("fallback", word, kFallbacks)) scenario_.fall_back_to_slots = word == 1;
    fields.Duration("takeover", scenario_.takeover, seconds(0), hours(1));
    fields.Duration("plan_every", scenario_.plan_every, milliseconds(1), seconds(1));
    if (const Node* network = fields.Map("network")) ReadNetwork(*network, "network", scenario_.network);
    if (!fields.Has("workers")) fields.AddFault("workers", "is needed");
    const bool none =
        ReadAll(fields, "workers", [this](const Node& node, const std::string& at) { ReadGroup(node, at); });
    if (none) fields.AddFault("workers", "needs at least one worker");
    const auto cells = scenario_.duration / seconds(1) * static_cast<std::int64_t>(scenario_.workers.size());
    if (cells > kMostCells) fields.AddFault("duration", "too much: at most 20000000 seconds of all workers together");
    ReadAll(fields, "events", [this](const Node& node, const std::string& path) { ReadEvent(node, path); });
    std::stable_sort(scenario_.events.begin(), scenario_.events.end(),
                     [](const Event& a, const Event& b) { return a.at < b.at; });
  }

  Scenario Take() {
    Random random(scenario_.seed);
    for (Worker& worker : scenario_.workers) {
      worker.clock = random.In(-scenario_.clock_offset, scenario_.clock_offset);
    }
    return std::move(scenario_);
  }

 private:
  FieldReader Section(const Node& node, std::string_view section, std::string path) {
    return {node, section, std::move(path), kFields, file_, faults_};
  }

  /// True: an empty list.
  template <typename Read>
  bool ReadAll(FieldReader& fields, std::string_view key, const Read& read) {
    const Node* list = fields.List(key);
    if (list == nullptr) return false;
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      read(list->items[i], std::string(key) + "[" + std::to_string(i) + "]");
    }
    return list->items.empty();
  }

  void ReadNetwork(const Node& node, const std::string& path, Network& network) {
    FieldReader fields = Section(node, "network", path);
    fields.Duration("delay", network.delay, seconds(0), hours(1));
    network.delay_most = std::max(network.delay_most, network.delay);
    fields.Duration("delay_most", network.delay_most, seconds(0), hours(1));
    if (network.delay_most < network.delay) fields.AddFault("delay_most", "needs to be at least `delay`");
    fields.Share("loss", network.loss);
    fields.Share("repeated", network.repeated);
  }

  void ReadGroup(const Node& node, const std::string& path) {
    FieldReader fields = Section(node, "workers[]", path);
    Worker worker;
    if (!fields.Has("name")) fields.AddFault("name", "is needed");
    if (fields.Text("name", worker.group)) {
      if (worker.group.empty() || worker.group.find_first_of(" \t\n,\"<>&") != std::string::npos) {
        fields.AddFault("name", "needs a text without spaces, commas, quotes, <, > and &");
      } else if (!groups_.try_emplace(worker.group).second) {
        fields.AddFault("name", "stands here twice");
      }
    }
    std::int64_t count = 1;
    fields.Integer("count", count, 1, static_cast<std::int64_t>(kMostWorkers));
    MaxRate rate;
    if (fields.Rate("arrivals", rate)) worker.arrivals = rate.PerSecond();
    double of_all = 0;
    if (fields.Rate("arrivals_of_all", rate)) {
      of_all = rate.PerSecond();
      if (fields.Has("arrivals")) fields.AddFault("arrivals_of_all", "stands beside `arrivals`: one of them");
    }
    double zipf = 0;
    if (fields.Number("zipf", zipf, 0, 10) && !fields.Has("arrivals_of_all")) {
      fields.AddFault("zipf", "shares `arrivals_of_all` out: there is none");
    }
    fields.Integer("backlog", worker.backlog, 0, kMostMessages);
    fields.Duration("endpoint_time", worker.endpoint_time, seconds(0), hours(1));
    fields.Integer("max_in_flight", worker.max_in_flight, 1, kMostMessages);

    double weights = 0;
    for (std::int64_t k = 1; k <= count; ++k) weights += std::pow(static_cast<double>(k), -zipf);
    if (scenario_.workers.size() + static_cast<std::size_t>(count) > kMostWorkers) {
      fields.AddFault("count", "at most 100000 workers in all");
      return;
    }
    for (std::int64_t k = 0; k < count; ++k) {
      worker.name = count == 1 ? worker.group : worker.group + "-" + std::to_string(k);
      if (of_all > 0) worker.arrivals = of_all * std::pow(static_cast<double>(k + 1), -zipf) / weights;
      groups_[worker.group].push_back(scenario_.workers.size());
      scenario_.workers.push_back(worker);
    }
  }

  void Named(FieldReader& fields, const std::vector<std::string>& names, std::vector<std::size_t>& indexes) {
    for (const std::string& name : names) {
      if (const auto group = groups_.find(name); group != groups_.end()) {
        indexes.insert(indexes.end(), group->second.begin(), group->second.end());
        continue;
      }
      const auto worker = std::find_if(scenario_.workers.begin(), scenario_.workers.end(),
                                       [&](const Worker& each) { return each.name == name; });
      if (worker != scenario_.workers.end()) {
        indexes.push_back(static_cast<std::size_t>(worker - scenario_.workers.begin()));
      } else {
        fields.AddFault("workers", "no group and no worker is called " + name);
      }
    }
  }

  void ReadEvent(const Node& node, const std::string& path) {
    FieldReader fields = Section(node, "events[]", path);
    Event event;
    if (!fields.Has("at")) fields.AddFault("at", "is needed");
    fields.Duration("at", event.at, seconds(0), hours(24));
    if (event.at >= scenario_.duration) fields.AddFault("at", "comes after the end, see `duration`");
    std::vector<std::string> names;
    if (fields.Texts("workers", names)) Named(fields, names, event.workers);

    constexpr std::string_view kProcess[] = {"", "stop", "kill", "start"};
    std::size_t word = 0;
    if (fields.Word("process", word, kProcess)) event.process = static_cast<Event::Process>(word);
    MaxRate rate;
    if (fields.Rate("arrivals", rate)) event.arrivals = rate.PerSecond();
    fields.Integer("backlog", event.backlog, 0, kMostMessages);
    Nanoseconds time{};
    if (fields.Duration("endpoint_time", time, seconds(0), hours(1))) event.endpoint_time = time;
    if (fields.Rate("max_rate", rate)) event.max_rate = rate;
    constexpr std::string_view kKill[] = {"kill"};
    event.kill_coordinator = fields.Word("coordinator", word, kKill);
    if (const Node* network = fields.Map("network")) {
      event.network = scenario_.network;
      ReadNetwork(*network, path + ".network", *event.network);
    }
    std::optional<Event> start;
    if (fields.Duration("restart", time, milliseconds(1), hours(24))) {
      if (fields.Has("process")) fields.AddFault("restart", "stands beside `process`: one of them");
      event.process = Event::Process::kStop;
      start.emplace();
      start->at = event.at + time;
      start->workers = event.workers;
      start->process = Event::Process::kStart;
    }
    const bool of_workers =
        event.process != Event::Process::kAsItIs || event.arrivals || fields.Has("backlog") || event.endpoint_time;
    if (of_workers && !fields.Has("workers")) fields.AddFault("workers", "is needed: whom is this about?");
    if (!of_workers && fields.Has("workers")) fields.AddFault("workers", "nothing here is about them");

    event.text = TextOf(node);
    scenario_.events.push_back(std::move(event));
    if (start) scenario_.events.push_back(std::move(*start));
  }

  /// An event as one reads it in a chart: `worker-0 restart 20s`.
  static std::string TextOf(const Node& node) {
    std::string text;
    const auto add = [&](std::string_view word) { text.append(text.empty() ? "" : " ").append(word); };
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const Node& value = node.items[i];
      if (node.keys[i].text == "at") continue;
      if (node.keys[i].text != "workers") add(node.keys[i].text);
      if (value.kind == Node::Kind::kMap) {
        add(TextOf(value));
      } else if (value.kind == Node::Kind::kList) {
        for (const Node& item : value.items) add(item.text);
      } else {
        add(value.text);
      }
    }
    return text;
  }

  std::string file_;
  std::vector<config::Fault>& faults_;
  Scenario scenario_;
  std::map<std::string, std::vector<std::size_t>> groups_;
};

}  // namespace

config::Loaded<Scenario> LoadScenario(std::string_view file, std::string_view text) {
  config::Loaded<Scenario> result;
  const std::vector<Node> documents = config::ParseDocuments(file, text, result.faults);
  if (documents.size() != 1) {
    if (result.faults.empty()) {
      result.faults.push_back({std::string(file), 0, 0, "", "", "needs one document, a scenario", ""});
    }
    return result;
  }
  if (!result.faults.empty()) return result;
  Loader loader(file, result.faults);
  loader.ReadTop(documents.front());
  if (result.faults.empty()) result.value = loader.Take();
  std::stable_sort(result.faults.begin(), result.faults.end(), [](const config::Fault& a, const config::Fault& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  return result;
}

std::string ScenarioHelp() {
  std::string help;
  std::string_view section;
  for (const Field& field : kFields) {
    if (field.section != section) {
      section = field.section;
      help.append("\n").append(section).append(":\n");
    }
    std::string head = "  " + std::string(field.key) + " (" + std::string(field.form) + ")";
    help.append(head).append("\n      ").append(field.help).append("\n");
  }
  return help;
}

}  // namespace posthorn::simulation
