"""Adaptive shares: five workers at 1/s, all with a backlog: exactly one attempt in each second."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
SECONDS = 12
WORKERS = 5


def run(test):
    topic = test.topic(partitions=10)
    test.produce(topic, 600)
    sink = test.sink()
    test.deployment(shares="adaptive", membership="dynamic")
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "1/s"}), 1)
    test.fleet_of(WORKERS, prefix="any")

    def owned():
        counts = [worker.metric("posthorn_group_partitions_owned") for worker in test.workers]
        return sum(counts) == 10 and min(counts) > 0
    system.eventually("all partitions have an owner, every worker some", owned, within=40)
    system.eventually("every worker has a lease", lambda: all(worker.metrics("posthorn_lease_age_seconds") for worker in test.workers), within=20)
    first = system.next_label() + 2
    system.await_label(first + SECONDS - 1)

    labels = test.labels("billing")
    test.say(f"attempts by label: {dict(sorted(labels.items()))}")
    checks.never_above(test.rates, labels)
    checks.exactly(labels, 1, first, first + SECONDS - 1)
    within = [request for request in sink.requests() if first <= request.second < first + SECONDS]
    checks.require(abs(len(within) - SECONDS) <= 1, f"{len(within)} requests at the sink in {SECONDS} seconds")
    test.none_has_ended()
