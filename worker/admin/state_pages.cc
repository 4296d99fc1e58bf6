#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url.hpp>

#include <map>
#include <set>

#include "config/effective.h"
#include "config/rfc3339.h"
#include "worker/admin/lane_lag.h"
#include "worker/admin/pages.h"

namespace posthorn::admin {
namespace {

namespace json = boost::json;
using delivery::ShardStats;
using delivery::SubscriptionShared;
using ratelimit::Label;
using SubscriptionView = delivery::Dispatcher::SubscriptionView;

Response JsonPage(const json::value& value, int status = 200) {
  return {status, "application/json", json::serialize(value) + "\n"};
}

Response JsonError(int status, const std::string& text) { return JsonPage(json::object{{"error", text}}, status); }

std::uint64_t AttemptsIn(const SubscriptionShared& shared, Label label) {
  std::uint64_t sum = 0;
  for (const auto& stats : shared.per_shard) sum += stats->attempts_by_label.Of(label);
  return sum;
}

json::value TextOrNull(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

/// Without what may hold secrets: user, password, query and fragment.
std::string ShownEndpoint(const std::string& endpoint) {
  const auto parsed = boost::urls::parse_uri(endpoint);
  if (!parsed) return endpoint.substr(0, endpoint.find_first_of("?#"));
  boost::urls::url shown(*parsed);
  shown.remove_userinfo().remove_query().remove_fragment();
  return std::string(shown.buffer());
}

json::value RevisionOf(const config::SnapshotPtr& snapshot) {
  if (!snapshot) return nullptr;
  return json::object{{"digest", snapshot->digest}, {"number", TextOrNull(snapshot->source_revision)}};
}

const char* ToString(delivery::LaneReader reader) {
  switch (reader) {
    case delivery::LaneReader::kShared:
      return "shared";
    case delivery::LaneReader::kOwn:
      return "own";
    case delivery::LaneReader::kWaitsForOwn:
      return "waits for own";
  }
  return "";
}

json::object LagObject(const SubscriptionView& view) {
  delivery::Offset total = 0;
  json::array partitions;
  for (const auto& lane : view.lanes) {
    const auto lag = LagOf(lane);
    total += lag.value_or(0);
    partitions.push_back(json::object{{"topic", lane.partition.topic},
                                      {"partition", lane.partition.partition},
                                      {"lag", lag ? json::value(*lag) : json::value(nullptr)},
                                      {"next", lane.next},
                                      {"reader", ToString(lane.reader)},
                                      {"log_end", lag ? json::value(lane.log_end) : json::value(nullptr)}});
  }
  return {{"total", total}, {"partitions", std::move(partitions)}};
}

json::value LastError(const SubscriptionShared& shared) {
  const auto error = shared.last_error();
  if (error.text.empty()) return nullptr;
  return json::object{{"text", error.text}, {"time", config::FormatRfc3339(error.at)}};
}

/// `until`: the end of the wait the endpoint asked for, or the next probe.
json::object HealthObject(const delivery::EndpointHealth& health, const runtime::Now& now) {
  const auto view = health.Show(now.steady);
  const bool slowed = view.state == delivery::EndpointHealth::State::kSlowed;
  return {{"state", delivery::ToString(view.state)},
          {"ceiling", slowed ? json::value(view.ceiling) : json::value(nullptr)},
          {"until", view.until == runtime::SteadyTime()
                        ? json::value(nullptr)
                        : json::value(config::FormatRfc3339(now.wall + (view.until - now.steady)))}};
}

const char* ToString(ratelimit::Lease::Source source) {
  switch (source) {
    case ratelimit::Lease::Source::kLease:
      return "lease";
    case ratelimit::Lease::Source::kFallback:
      return "slot";
    case ratelimit::Lease::Source::kNothing:
      return "nothing";
  }
  return "";
}

json::value Seconds(const std::optional<runtime::Nanoseconds>& time) {
  return time ? json::value(std::chrono::duration<double>(*time).count()) : json::value(nullptr);
}

/// What this worker has of the limit by lease, and who grants it.
json::object LeaseObject(const fleet::LeaseView& view, const fleet::LimitBook::View& limit, ratelimit::Label label) {
  const auto& lease = view.lease;
  return {{"total", limit.limit.max_rate.Total(label)},
          {"share", lease.cap.permits},
          {"used", limit.limiter->UsedIn(label)},
          {"share_from", ToString(lease.cap.source)},
          {"lease_age", Seconds(view.lease_age)},
          {"lease_until", lease.covered_until ? json::value(*lease.covered_until) : json::value(nullptr)},
          {"waits_for_lease", view.waits},
          {"demand", view.demand.next_window},
          {"starved", view.starved},
          {"coordinator", TextOrNull(view.coordinator)},
          {"epoch", view.epoch},
          {"control_partition", view.partition}};
}

json::array Coordinated(const fleet::ControlView& control) {
  json::array partitions;
  for (const auto& partition : control.coordinated) {
    json::array limits;
    for (const auto& limit : partition.limits) {
      json::array workers;
      for (std::size_t i = 0; i < limit.view.members.size(); ++i) {
        const auto& member = limit.view.members[i];
        workers.push_back(json::object{{"instance", limit.instances[i]},
                                       {"live", member.live},
                                       {"share", member.share},
                                       {"exposure", member.exposure},
                                       {"demand", member.demand},
                                       {"used_last_window", member.used_before},
                                       {"starved", member.starved}});
      }
      limits.push_back(json::object{{"name", limit.name},
                                    {"total", limit.view.total},
                                    {"exposure", limit.view.exposure},
                                    {"senseless_reports", limit.view.senseless_reports},
                                    {"workers", std::move(workers)}});
    }
    partitions.push_back(json::object{{"control_partition", partition.partition},
                                      {"leading", partition.phase == ratelimit::Coordinator::Phase::kLeading},
                                      {"epoch", partition.epoch},
                                      {"limits", std::move(limits)}});
  }
  return partitions;
}

json::value ControlObject(const std::optional<fleet::ControlView>& control) {
  if (!control) return nullptr;
  const auto offset = control->clock_offset ? std::optional(control->clock_offset->middle()) : std::nullopt;
  return json::object{{"partitions", control->partitions},
                      {"clock_offset", Seconds(offset)},
                      {"clock_fenced", control->clock_fenced},
                      {"permits_above_limit", control->above_total},
                      {"coordinated", Coordinated(*control)}};
}

using Leases = std::map<std::string, fleet::LeaseView>;

Leases LeasesOf(const std::optional<fleet::ControlView>& control) {
  Leases leases;
  if (!control) return leases;
  for (const auto& view : control->limits) leases.emplace(view.limit, view);
  return leases;
}

json::value LeaseOf(const Leases& leases, const fleet::LimitBook::View& limit, ratelimit::Label label) {
  const auto found = leases.find(limit.name);
  return found == leases.end() ? json::value(nullptr) : json::value(LeaseObject(found->second, limit, label));
}

/// The limits that this worker coordinates, by name.
using Led = std::map<std::string, const fleet::CoordinatedView::Limit*>;

Led LedHere(const std::optional<fleet::ControlView>& control) {
  Led led;
  if (!control) return led;
  for (const auto& partition : control->coordinated) {
    if (partition.phase != ratelimit::Coordinator::Phase::kLeading) continue;
    for (const auto& limit : partition.limits) led.emplace(limit.name, &limit);
  }
  return led;
}

json::object SharesOf(const fleet::CoordinatedView::Limit& limit) {
  json::object shares;
  for (std::size_t i = 0; i < limit.view.members.size(); ++i) {
    if (limit.view.members[i].live) shares[limit.instances[i]] = limit.view.members[i].share;
  }
  return shares;
}

/// Everybody who has a part in a limit. Null: nothing is coordinated here, so others know.
json::value MembersOf(const Led& led) {
  if (led.empty()) return nullptr;
  std::set<std::string> members;
  for (const auto& [name, limit] : led) {
    for (const auto& share : SharesOf(*limit)) members.emplace(share.key());
  }
  return json::array(members.begin(), members.end());
}

json::value CoordinatorOf(const Leases& leases, const std::string& limit) {
  const auto found = leases.find(limit);
  return found == leases.end() ? json::value(nullptr) : TextOrNull(found->second.coordinator);
}

json::object SubscriptionObject(const SubscriptionView& view,
                                const std::map<std::string, fleet::LimitBook::View>& limits, const Leases& leases,
                                const runtime::Now& at) {
  const auto now = at.wall;
  const auto& config = *view.config;
  const auto& shared = *view.shared;
  const auto limit = limits.find(config.limit);
  const bool limited = limit != limits.end();
  const auto attempts = shared.Sum(&ShardStats::attempts_delivered) + shared.Sum(&ShardStats::attempts_retryable) +
                        shared.Sum(&ShardStats::attempts_overload) + shared.Sum(&ShardStats::attempts_rejected);
  return {{"name", config.name},
          {"topic", config.topic},
          {"endpoint", ShownEndpoint(config.endpoint)},
          {"paused", config.paused},
          {"limit", TextOrNull(config.limit)},
          {"max_rate", limited ? json::value(limit->second.limit.max_rate.ToString()) : json::value(nullptr)},
          {"partial_limit", limited ? json::value(limit->second.limiter->PartialLimit(now)) : json::value(nullptr)},
          {"lease", limited ? LeaseOf(leases, limit->second, ratelimit::LabelAt(now)) : json::value(nullptr)},
          {"rate", AttemptsIn(shared, ratelimit::LabelAt(now) - 1)},
          {"in_flight", shared.Sum(&ShardStats::in_flight)},
          {"waiting_for_permit", shared.Sum(&ShardStats::waiting_for_permit)},
          {"retrying", shared.Sum(&ShardStats::retrying)},
          {"health", HealthObject(shared.health, at)},
          {"parked", shared.Sum(&ShardStats::parked_here)},
          {"lag", LagObject(view)},
          {"attempts", attempts},
          {"delivered", shared.Sum(&ShardStats::delivered)},
          {"expired", shared.Sum(&ShardStats::expired)},
          {"rejected", shared.Sum(&ShardStats::rejected)},
          {"attempts_exhausted", shared.Sum(&ShardStats::exhausted)},
          {"last_error", LastError(shared)}};
}

}  // namespace

Response SubscriptionsPage(const WorkerView& view, const Request& request) {
  const auto* wanted = request.Query("name");
  const auto now = view.clock->Read();
  std::map<std::string, fleet::LimitBook::View> limits;
  for (auto& limit : view.limits()) limits.emplace(limit.name, limit);
  const auto leases = LeasesOf(view.control());
  json::array list;
  for (const auto& subscription : view.subscriptions()) {
    if (wanted != nullptr && subscription.config->name != *wanted) continue;
    list.push_back(SubscriptionObject(subscription, limits, leases, now));
  }
  if (wanted != nullptr && list.empty()) return JsonError(404, "no subscription of that name");
  return JsonPage(json::object{
      {"instance", view.instance}, {"revision", RevisionOf(view.snapshot())}, {"subscriptions", std::move(list)}});
}

Response FleetPage(const WorkerView& view) {
  const auto now = view.clock->Read().wall;
  const auto label = ratelimit::LabelAt(now);
  const auto snapshot = view.snapshot();
  const auto membership = view.membership();
  json::array owned;
  for (const auto& partition : membership.owned) {
    owned.push_back(json::object{{"topic", partition.topic}, {"partition", partition.partition}});
  }
  const auto control = view.control();
  const auto leases = LeasesOf(control);
  const auto led = LedHere(control);
  json::array limits;
  for (const auto& limit : view.limits()) {
    const auto here = led.find(limit.name);
    // The share first: it moves the limiter on to the running window, so that the last one is closed.
    const auto partial = limit.limiter->PartialLimit(now);
    limits.push_back(
        json::object{{"name", limit.name},
                     {"max_rate", limit.limit.max_rate.ToString()},
                     {"total", limit.limit.max_rate.Total(label)},
                     {"partial_limit", partial},
                     {"used_last_window", limit.limiter->UsedIn(label - 1)},
                     {"coordinator", CoordinatorOf(leases, limit.name)},
                     {"shares", here == led.end() ? json::value(nullptr) : SharesOf(*here->second)},
                     {"exposure", here == led.end() ? json::value(nullptr) : json::value(here->second->view.exposure)},
                     {"lease", LeaseOf(leases, limit, label)}});
  }
  const auto by_slot = snapshot && snapshot->instances;
  const auto problem = view.limit_problem();
  return JsonPage(json::object{{"instance", view.instance},
                               {"slot", view.slot ? json::value(*view.slot) : json::value(nullptr)},
                               {"instances", by_slot ? json::value(*snapshot->instances) : json::value(nullptr)},
                               {"shares_by", control   ? "lease"
                                             : by_slot ? "slot"
                                                       : "partition"},
                               {"problem", TextOrNull(problem)},
                               {"members", MembersOf(led)},
                               {"member", membership.joined && !membership.fenced},
                               {"confirmed", view.membership_confirmed()},
                               {"fenced", membership.fenced},
                               {"last_error", TextOrNull(membership.last_error)},
                               {"owned_partitions", std::move(owned)},
                               {"window", label},
                               {"limits", std::move(limits)},
                               {"control", ControlObject(control)}});
}

Response LabelsPage(const WorkerView& view, const Request& request) {
  const auto* limit = request.Query("limit");
  const auto* name = request.Query("subscription");
  if ((limit == nullptr) == (name == nullptr)) return JsonError(400, "say ?limit=NAME or ?subscription=NAME");
  std::vector<std::shared_ptr<SubscriptionShared>> chosen;
  for (const auto& subscription : view.subscriptions()) {
    if (limit != nullptr ? subscription.config->limit == *limit : subscription.config->name == *name) {
      chosen.push_back(subscription.shared);
    }
  }
  if (chosen.empty()) return JsonError(404, "no subscription has that name or limit");
  const auto newest = ratelimit::LabelAt(view.clock->Read().wall);
  json::array labels;
  for (Label label = newest - static_cast<Label>(delivery::LabelCounts::kWindows) + 1; label <= newest; ++label) {
    std::uint64_t used = 0;
    for (const auto& shared : chosen) used += AttemptsIn(*shared, label);
    if (used > 0) labels.push_back(json::array{label, used});
  }
  json::object page;
  page[limit != nullptr ? "limit" : "subscription"] = limit != nullptr ? *limit : *name;
  page["labels"] = std::move(labels);
  return JsonPage(std::move(page));
}

}  // namespace posthorn::admin
