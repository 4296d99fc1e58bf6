"""Without `instances` the shares follow the partitions: a worker joins, one is killed, the sum holds and is used in full."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 110
MESSAGES = 24_000
RATE = 480
PARTITIONS = 12


def run(test):
    topic = test.topic(partitions=PARTITIONS)
    test.produce(topic, MESSAGES)
    sink = test.sink()
    test.deployment(membership="dynamic")
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"}), RATE)
    test.watch_labels("billing")
    test.fleet_of(3, prefix="any")

    def settled(members):
        checks.require(sum(worker.running for worker in test.workers) == members, f"there are not {members} workers")
        test.await_owned(PARTITIONS)
        # What was gained counts from the next label that starts max_clock_offset later.
        return system.next_label() + 1

    def full(first, what):
        system.await_label(first + 2)
        labels = test.labels("billing")
        test.say(f"{what}: {[labels.get(label, 0) for label in range(first, first + 3)]}")
        checks.used_in_full(labels, RATE, first, first + 2)

    full(settled(3), "three workers")
    test.worker("any-3").await_ready()
    full(settled(4), "a fourth joined")

    victim = test.workers[1]
    test.labels("billing")
    victim.kill()
    test.say(f"{victim.instance} is killed")
    full(settled(3), "one killed")

    labels, seconds = test.labels("billing"), sink.per_second()
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, seconds, workers=4, skew=sink.skew)
    gone = [worker.instance for worker in test.workers if not worker.running and worker is not victim]
    checks.require(not gone, f"workers that ended by themselves: {gone}")
