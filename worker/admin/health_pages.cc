#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "worker/admin/pages.h"

namespace posthorn::admin {
namespace {

namespace json = boost::json;

struct Condition {
  const char* name;
  std::string why;  // empty: it holds
};

std::string WhyNoConfiguration(const WorkerView& view) {
  if (view.snapshot()) return "";
  const auto state = view.config();
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
      {"configuration", WhyNoConfiguration(view)},
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
    list.push_back(std::move(item));
  }
  const json::object page{{"ready", ready}, {"instance", view.instance}, {"conditions", std::move(list)}};
  return {ready ? 200 : 503, "application/json", json::serialize(page) + "\n"};
}

}  // namespace posthorn::admin
