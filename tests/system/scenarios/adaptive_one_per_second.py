"""Adaptive shares: five workers at 1/s, all with a backlog: exactly one attempt in each second."""

import one_per_second
import posthorn_system as system

LIMIT_SECONDS = 90
WORKERS = 5


def run(test):
    topic = test.topic(partitions=10)
    test.produce(topic, 600)
    sink = test.sink()
    test.deployment(shares="adaptive", membership="dynamic")
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "1/s"}), 1)
    test.fleet_of(WORKERS, prefix="any")
    test.await_owned(10)
    system.eventually("every worker has a lease", lambda: all(worker.metrics("posthorn_lease_age_seconds") for worker in test.workers), within=20)
    one_per_second.judge(test, sink, system.next_label() + 2)
