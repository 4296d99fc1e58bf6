"""Total and N changed together by `effective_at`: no window above the old total before, nor above the new one from then on."""

import datetime

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
MESSAGES = 16_000
NOTICE = 4  # windows


def run(test):
    test.side_by_side(change_twice, ("static", "adaptive"))


def change_twice(test, shares):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    sink = test.sink()
    test.watch_labels("billing")

    def put(rate, instances, at=None):
        document = (f"instances: {instances}\nsubscriptions:\n  - name: billing\n    topic: {topic}\n    endpoint: {sink.endpoint}\n"
                    f"    max_rate: {rate}/s\n    max_in_flight: 256\n")
        if at is not None:
            document += f"effective_at: {datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat()}\n"
        test.write_subscriptions(document)

    def change(rate, instances):
        """Tells it beforehand; returns the label from which on it holds, three labels after it."""
        system.until_phase(0.3)
        label = system.next_label() + NOTICE
        put(rate, instances, label)
        system.await_label(label + 3)
        return label

    least = 0.99 if shares == "static" else 0.9
    test.deployment(shares=shares)
    put(300, 3)
    fleet = test.fleet_of(3)
    first = system.next_label() + 4  # all have joined, and the leases are dealt
    system.await_label(first + 1)
    lowered = change(100, 2)
    raised = change(400, 3)
    labels = test.labels("billing")
    test.say(f"attempts by label, from the change on: {[labels.get(label, 0) for label in range(lowered - 2, raised + 3)]}")
    for label in range(first, raised + 3):
        most = 300 if label < lowered else 100 if label < raised else 400
        checks.require(labels.get(label, 0) <= most, f"{shares}: {labels.get(label, 0)} of {most} in {label - lowered} after the change")
    checks.used_in_full(labels, 300, first, lowered - 1, least)
    checks.used_in_full(labels, 100, lowered, raised - 1, least)
    # Whoever coordinates has to give what is new; without one nothing is waited for.
    checks.used_in_full(labels, 400, raised if shares == "static" else raised + 1, raised + 2, least)
    for worker in fleet:
        checks.require(worker.metric("posthorn_config_late_total") == 0, f"{worker.instance} has learned too late")
    test.none_has_ended()
    checks.finished_once(sink.requests(), test.dead_letters())
    for worker in fleet:
        worker.stop()
