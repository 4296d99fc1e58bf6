"""A bad configuration swapped in while running is refused with all faults, deliveries go on; corrected, it is taken."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 70

BAD = """\
instances: 1
subscriptions:
  - name: billing
    topic: {topic}
    endpoint: {endpoint}
    max_rate: 200
    timeot: 3s
  - name: billing
    topic: {topic}
    endpoint: not-a-url
"""


def run(test):
    topic = test.topic(partitions=4)
    test.produce(topic, 8_000)
    sink = test.sink()
    test.deployment()
    good = {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "200/s"}
    test.rates.set(test.subscriptions(good, instances=1), 200)
    worker, = test.fleet_of(1)
    system.eventually("deliveries run", lambda: len(sink.delivered()) > 200, within=20)
    digest_before = worker.metrics("posthorn_config_info")
    refused_before = worker.metric("posthorn_config_revisions_refused_total")

    test.write_subscriptions(BAD.format(topic=topic, endpoint=sink.endpoint))
    system.eventually("the metrics tell of the refusal",
                      lambda: worker.metric("posthorn_config_revisions_refused_total") == refused_before + 1, within=5)
    log = "\n".join(str(entry) for entry in worker.events("configuration"))
    for fault in ("timeot", "200", "not-a-url", "billing"):
        checks.require(fault in log, f"the log does not name the fault about '{fault}':\n{log}")
    faults = worker.events("configuration fault")
    checks.require(len(faults) >= 4, f"only {len(faults)} of 4 faults in the log: {faults}")
    checks.require(worker.metrics("posthorn_config_info") == digest_before, "the running revision changed although the new one was refused")
    page = worker.get("/config")
    checks.require("timeot" in page, "/config does not show the refused revision's faults")

    before = len(sink.delivered())
    system.eventually("deliveries go on under the old configuration", lambda: len(sink.delivered()) > before + 300, within=10)

    at = test.subscriptions({**good, "max_rate": "300/s"}, instances=1)
    test.rates.set(at, 300)
    system.eventually("the corrected revision is taken", lambda: worker.metrics("posthorn_config_info") != digest_before, within=5)
    system.await_label(int(at) + 3)
    labels = test.labels("billing")
    checks.used_in_full(labels, 300, int(at) + 2, int(at) + 3)
    checks.never_above(test.rates, labels)
    checks.finished_once(sink.requests(), test.dead_letters())
    test.none_has_ended()
    worker.stop()
