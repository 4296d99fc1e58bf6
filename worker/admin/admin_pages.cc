#include "worker/admin/admin_pages.h"

#include "worker/admin/loop_pings.h"
#include "worker/admin/pages.h"
#include "worker/admin/worker_metrics.h"
#include "worker/admin/worker_view.h"
#include "worker/fleet/control_plane.h"
#include "worker/kafka/retry_producer.h"

namespace posthorn::admin {
namespace {

constexpr char kIndex[] =
    "posthorn worker\n"
    "/livez                      200 while the process turns its loops\n"
    "/readyz                     200 when the worker does its part; JSON with each condition\n"
    "/metrics                    Prometheus\n"
    "/subscriptions[?name=NAME]  JSON: rate, partial limit, in flight, lag, last error\n"
    "/config[?format=json]       the running revision and the last refused one\n"
    "/fleet                      JSON: this worker's place in the fleet, its part of each limit\n"
    "/debug/labels?limit=NAME    JSON: permits used per wall-clock second; or ?subscription=NAME\n";

std::shared_ptr<const WorkerView> ViewOf(AdminSources sources) {
  auto view = std::make_shared<WorkerView>();
  view->instance = std::move(sources.instance);
  view->slot = sources.slot;
  view->clock = sources.clock;
  view->loops = std::move(sources.loops);
  view->subscriptions = [dispatcher = sources.dispatcher] { return dispatcher->Subscriptions(); };
  view->snapshot = [dispatcher = sources.dispatcher] { return dispatcher->snapshot(); };
  view->owned_partitions = [dispatcher = sources.dispatcher] { return dispatcher->owned_partitions(); };
  view->limits = [limits = sources.limits] { return limits->Views(); };
  view->control = [control = sources.control]() -> std::optional<fleet::ControlView> {
    if (control == nullptr) return std::nullopt;
    return control->View();
  };
  view->limit_problem = [limits = sources.limits] { return limits->Problem(); };
  view->config = [watch = sources.watch] { return watch->State(); };
  view->membership = [membership = sources.membership] { return membership->state(); };
  view->membership_confirmed = [membership = sources.membership] { return membership->Confirmed(); };
  view->offsets = [offsets = sources.offsets] { return offsets->stats(); };
  view->dead_letters = [dead_letters = sources.dead_letters] { return dead_letters->stats(); };
  view->retry_ignored = [retry = sources.retry] { return retry->ignored(); };
  view->memory = std::move(sources.memory);
  return view;
}

}  // namespace

std::unique_ptr<AdminServer> MakeAdminServer(const std::string& address, AdminSources sources) {
  auto server = std::make_unique<AdminServer>(address);
  AddPages(*server, ViewOf(std::move(sources)));
  return server;
}

void AddPages(AdminServer& server, std::shared_ptr<const WorkerView> view) {
  auto pings = std::make_shared<LoopPings>(view->loops);
  auto metrics = std::make_shared<WorkerMetrics>(view);
  server.OnTick([pings, metrics, view] {
    pings->Ping(view->clock->Read().steady);
    metrics->Tick();
  });
  server.Handle("/", [](const Request&) { return Response{.body = kIndex}; });
  server.Handle("/livez", [pings, view](const Request&) { return LivePage(*pings, *view); });
  server.Handle("/readyz", [view](const Request&) { return ReadyPage(*view); });
  server.Handle("/metrics", [metrics](const Request&) {
    return Response{200, "text/plain; version=0.0.4; charset=utf-8", metrics->Scrape()};
  });
  server.Handle("/subscriptions", [view](const Request& request) { return SubscriptionsPage(*view, request); });
  server.Handle("/config", [view](const Request& request) { return ConfigPage(*view, request); });
  server.Handle("/fleet", [view](const Request&) { return FleetPage(*view); });
  server.Handle("/debug/labels", [view](const Request& request) { return LabelsPage(*view, request); });
}

}  // namespace posthorn::admin
