"""A fourth worker joins with N raised in the file, one is stopped and N lowered: the sums hold throughout."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
MESSAGES = 20_000
RATE = 400


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    sink = test.sink()
    test.deployment()

    def set_instances(count):
        system.until_phase(0.3)
        at = test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"},
                                instances=count)
        test.say(f"instances: {count}")
        return int(at)

    def used_again_in_full(first):
        """The label from which on the limit is used in full."""
        def full():
            labels = test.labels("billing")
            now = system.next_label() - 1
            return next((label for label in range(first, now - 2)
                         if all(labels.get(label + i, 0) >= RATE * 0.99 for i in range(3))), None)
        return system.eventually("three labels in a row are used in full", full, within=20, every=0.5)

    test.rates.set(set_instances(3), RATE)
    test.watch_labels("billing")
    test.fleet_of(3)
    start = system.next_label() + 1
    system.await_label(start + 2)
    checks.used_in_full(test.labels("billing"), RATE, start, start + 2)

    changed = set_instances(4)
    joined = test.worker("orders-3").await_ready()
    again = used_again_in_full(changed + 1)
    test.say(f"full use {again - changed} s after N was raised")
    checks.require(joined.metric("posthorn_limit_permits_used_total", limit="billing") > 0, "the fourth worker has taken no permit")

    test.labels("billing")
    joined.stop()
    test.workers.remove(joined)
    kept = joined.counted["billing"]
    changed = set_instances(3)
    again = used_again_in_full(changed + 1)
    test.say(f"full use {again - changed} s after N was lowered")

    labels = test.labels("billing")
    for label, used in kept.items():
        labels[label] = labels.get(label, 0) + used
    seconds = sink.per_second()
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, seconds, workers=4, skew=sink.skew)
    checks.finished_once(sink.requests(), test.dead_letters())
    test.none_has_ended()
