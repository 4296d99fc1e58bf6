"""Three workers at 1/s: exactly one attempt in each second."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 70
SECONDS = 12


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, 600)
    sink = test.sink()
    test.deployment()
    test.rates.set(test.subscriptions(
        {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "1/s"}, instances=3), 1)
    test.fleet_of(3)
    # Every worker must own partitions: a slot without messages would leave its seconds empty.
    test.await_owned(12)
    judge(test, sink, system.next_label() + 1)
    checks.require(all(worker.counted["billing"] for worker in test.workers), "a worker never had its turn")


def judge(test, sink, first):
    """One attempt in each of the SECONDS from label `first` on."""
    system.await_label(first + SECONDS - 1)

    labels = test.labels("billing")
    test.say(f"attempts by label: {dict(sorted(labels.items()))}")
    checks.never_above(test.rates, labels)
    checks.exactly(labels, 1, first, first + SECONDS - 1)
    within = [request for request in sink.requests() if first <= request.second < first + SECONDS]
    checks.require(abs(len(within) - SECONDS) <= 1, f"{len(within)} requests at the sink in {SECONDS} seconds")
    test.none_has_ended()
