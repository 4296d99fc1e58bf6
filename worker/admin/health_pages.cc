#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "config/rfc3339.h"
#include "worker/admin/pages.h"

namespace posthorn::admin {
namespace {

namespace json = boost::json;

struct Condition {
  const char* name;
  std::string why;          // empty: it holds
  std::string detail = {};  // what is worth knowing although it holds
};

/// A worker whose source is away goes on, and is ready; who looks shall see it all the same.
std::string ConfigurationDetail(const WorkerView& view) {
  const auto state = view.config();
  std::string detail;
  const auto add = [&detail](const std::string& text) { detail += (detail.empty() ? "" : "; ") + text; };
  if (state.last_good) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(view.clock->Read().steady - state.accepted_at);
    add("the last good revision runs, from the disk, " + std::to_string(std::max<std::int64_t>(0, age.count())) +
        " s old");
  }
  if (!state.source_failure.empty()) add("the source cannot be read: " + state.source_failure);
  if (state.newest_refused) add("the newest revision is refused; /config has its faults");
  if (state.scheduled) {
    add("revision " + state.scheduled->digest + " is in force from " +
        config::FormatRfc3339(*state.scheduled->effective_at) + " on");
  }
  if (!state.cache_failure.empty()) add("the last good revision is not kept or cannot be used: " + state.cache_failure);
  return detail;
}

std::string WhyNoConfiguration(const WorkerView& view) {
  if (view.snapshot()) return "";
  const auto state = view.config();
  if (state.scheduled) {
    return "the only revision so far is in force from " + config::FormatRfc3339(*state.scheduled->effective_at) + " on";
  }
  if (!state.source_failure.empty()) return "the source cannot be read: " + state.source_failure;
  if (state.last_refused) {
    return "the only revision so far is refused, " + std::to_string(state.last_refused->faults.size()) +
           " faults; /config has them";
  }
  return "no revision was read yet";
}

std::string WhyNoMember(const WorkerView& view, const kafka::MembershipState& membership) {
  const auto snapshot = view.snapshot();
  if (!snapshot) return "no topics are known before there is a configuration";
  if (snapshot->subscriptions.empty()) return "";
  if (!membership.joined) {
    return membership.last_error.empty() ? "the group has given no assignment yet"
                                         : "the group has given no assignment: " + membership.last_error;
  }
  if (!view.membership_confirmed()) return "the coordinator is being asked whether this worker is still a member";
  return "";
}

}  // namespace

Response LivePage(LoopPings& pings, const WorkerView& view) {
  const auto now = view.clock->Read().steady;
  pings.Ping(now);
  const auto stopped = pings.StoppedLoops(now);
  Response response;
  if (stopped.empty()) {
    response.body = "ok\n";
    return response;
  }
  response.status = 503;
  for (const auto& loop : stopped) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(loop.silent).count();
    response.body += "shard-" + std::to_string(loop.loop) + " has not turned for " + std::to_string(seconds) + " s\n";
  }
  return response;
}

Response ReadyPage(const WorkerView& view) {
  const auto membership = view.membership();
  const Condition conditions[] = {
      {"configuration", WhyNoConfiguration(view), ConfigurationDetail(view)},
      {"group", WhyNoMember(view, membership)},
      {"not_fenced", membership.fenced ? "another process has taken this instance name" : ""},
      {"share", view.limit_problem()},
  };
  bool ready = true;
  json::array list;
  for (const auto& condition : conditions) {
    const bool holds = condition.why.empty();
    ready = ready && holds;
    json::object item{{"name", condition.name}, {"ok", holds}};
    if (!holds) item["why"] = condition.why;
    if (holds && !condition.detail.empty()) item["detail"] = condition.detail;
    list.push_back(std::move(item));
  }
  const json::object page{{"ready", ready}, {"instance", view.instance}, {"conditions", std::move(list)}};
  return {ready ? 200 : 503, "application/json", json::serialize(page) + "\n"};
}

}  // namespace posthorn::admin
