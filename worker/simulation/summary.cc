#include "worker/simulation/summary.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cstdio>

namespace posthorn::simulation {
namespace {

constexpr std::int64_t kFullPercent = 95;

bool FullUse(const Outcome& outcome, std::size_t second) {
  return outcome.Sent(second) * 100 >= outcome.total[second] * kFullPercent || outcome.Waiting(second) == 0;
}

std::optional<std::size_t> WindowsToFullUse(const Outcome& outcome, std::size_t from, std::size_t end) {
  std::size_t first = end;
  while (first > from && FullUse(outcome, first - 1)) --first;
  if (first == end && end > from) return std::nullopt;
  return first - from;
}

std::string Quoted(std::string_view text) { return boost::json::serialize(boost::json::string(text)); }

template <typename Number>
std::string NumberOr(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "null";
}

}  // namespace

Summary Summarise(const Outcome& outcome) {
  Summary summary;
  std::int64_t used = 0;
  std::int64_t usable = 0;
  std::size_t drained = outcome.seconds;
  while (drained > 0 && outcome.Lag(drained - 1) == 0) --drained;
  for (std::size_t second = 0; second < outcome.seconds; ++second) {
    const std::int64_t sent = outcome.Sent(second);
    summary.sent += sent;
    summary.rejected += outcome.Rejected(second);
    if (const std::int64_t above = sent - outcome.most[second]; above > 0) {
      ++summary.seconds_above_total;
      if (!summary.worst || above > summary.worst->sent - summary.worst->total) {
        summary.worst = Summary::Above{second, sent, outcome.most[second]};
      }
    }
    if (outcome.Waiting(second) == 0) continue;
    ++summary.seconds_with_lag;
    used += std::min(sent, outcome.total[second]);
    usable += outcome.total[second];
  }
  if (usable > 0) summary.use_while_lag = static_cast<double>(used) / static_cast<double>(usable);

  std::vector<Outcome::Mark> marks = {{0, ""}};
  marks.insert(marks.end(), outcome.events.begin(), outcome.events.end());
  if (drained < outcome.seconds) {
    summary.seconds_to_drain = drained > marks.back().second ? drained - marks.back().second : 0;
  }
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const std::size_t end = i + 1 < marks.size() ? marks[i + 1].second : outcome.seconds;
    summary.after_events.push_back(
        {marks[i].second, marks[i].text, WindowsToFullUse(outcome, marks[i].second, std::max(end, marks[i].second))});
  }
  return summary;
}

std::string ToJson(const Summary& summary, const Scenario& scenario, const Outcome& outcome) {
  std::string json = "{\n";
  const auto add = [&](std::string_view key, const std::string& value) {
    json.append("  \"").append(key).append("\": ").append(value).append(",\n");
  };
  add("scenario", Quoted(scenario.name));
  if (!scenario.about.empty()) add("about", Quoted(scenario.about));
  add("strategy", Quoted(NameOf(outcome.strategy)));
  add("seed", std::to_string(scenario.seed));
  add("workers", std::to_string(outcome.workers.size()));
  add("seconds", std::to_string(outcome.seconds));
  add("seconds_above_total", std::to_string(summary.seconds_above_total));
  std::string worst = "null";
  if (summary.worst) {
    worst = "{\"second\": " + std::to_string(summary.worst->second) +
            ", \"sent\": " + std::to_string(summary.worst->sent) +
            ", \"total\": " + std::to_string(summary.worst->total) + "}";
  }
  add("worst", worst);
  add("sent", std::to_string(summary.sent));
  add("rejected", std::to_string(summary.rejected));
  add("seconds_with_lag", std::to_string(summary.seconds_with_lag));
  char use[32] = "null";
  if (summary.use_while_lag) std::snprintf(use, sizeof use, "%.4f", *summary.use_while_lag);
  add("use_of_the_total_while_lag", use);
  add("seconds_to_drain_after_the_last_event", NumberOr(summary.seconds_to_drain));
  json += "  \"windows_to_full_use\": [";
  for (std::size_t i = 0; i < summary.after_events.size(); ++i) {
    const Summary::AfterEvent& after = summary.after_events[i];
    json.append(i == 0 ? "\n" : ",\n").append("    {\"second\": ").append(std::to_string(after.second));
    if (!after.event.empty()) json.append(", \"event\": ").append(Quoted(after.event));
    json.append(", \"windows\": ").append(NumberOr(after.windows_to_full_use)).append("}");
  }
  json += "\n  ]\n}\n";
  return json;
}

}  // namespace posthorn::simulation
