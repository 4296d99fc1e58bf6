"""Adaptive shares: of three workers the one with the backlog has the whole max-rate, also after the backlog has jumped to another one,
and a lowered max-rate is obeyed by the next second."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 110
RATE = 1000
LOWERED = 100
SECONDS = 5


def run(test):
    topics = {name: test.topic(name, partitions=1) for name in ("left", "right")}
    for topic in topics.values():
        test.produce(topic, 40_000)
    sink = test.sink()
    test.deployment(shares="adaptive", membership="dynamic")

    def configure(busy, rate):
        """Each topic has one partition, and so one worker; the other one's subscription is paused."""
        at = test.write_subscriptions(system.json.dumps({
            "limits": {"acme": {"max_rate": f"{rate}/s"}},
            "subscriptions": [{"name": name, "topic": topic, "endpoint": sink.endpoint, "limit": "acme", "max_in_flight": 256,
                               "paused": name != busy} for name, topic in topics.items()]}))
        test.rates.set(at, rate)
        test.say(f"{busy} has the backlog, {rate}/s")
        return int(at)

    configure("left", RATE)
    test.watch_labels("acme")
    test.fleet_of(3, prefix="any")

    def owners():
        return [worker.metric("posthorn_group_partitions_owned") for worker in test.workers]
    system.eventually("two workers own a partition each, the third none", lambda: sorted(owners()) == [0, 1, 1], within=40)
    system.eventually("the limit is used", lambda: sum(test.labels("acme").values()) > RATE, within=30)

    def busy_one_has_it(first, what):
        system.await_label(first + SECONDS - 1)
        labels = test.labels("acme")
        span = range(first, first + SECONDS)
        test.say(f"{what}: {[labels.get(label, 0) for label in span]}")
        low = {label: labels.get(label, 0) for label in span if labels.get(label, 0) < 0.95 * RATE}
        checks.require(not low, f"{what}: less than 95 % of {RATE} in {low}")

    busy_one_has_it(system.next_label() + 2, "one worker of three is busy")
    system.until_phase(0.4)
    jumped = configure("right", RATE)
    busy_one_has_it(jumped + 2, "from the third window after the jump")

    fleet = [worker.get_json("/fleet") for worker in test.workers]
    limits = [page["limits"][0] for page in fleet]
    checks.require(all(page["shares_by"] == "lease" for page in fleet), f"shares are not by lease: {fleet}")
    coordinators = {limit["coordinator"] for limit in limits}
    checks.require(len(coordinators) == 1 and coordinators < {worker.instance for worker in test.workers},
                   f"the workers name different coordinators: {coordinators}")
    offsets = [page["control"]["clock_offset"] for page in fleet]
    checks.require(all(offset is not None and abs(offset) < 0.1 for offset in offsets), f"clock offsets: {offsets}")

    system.until_phase(0.4)
    lowered = configure("right", LOWERED)
    system.await_label(lowered + 4)
    labels, seconds = test.labels("acme"), sink.per_second()
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, seconds, workers=3, skew=sink.skew)
    # The two idle workers keep a permit each for what may come.
    checks.used_in_full(labels, LOWERED - 2, lowered + 2, lowered + 4)
    above = sum(worker.metric("posthorn_permits_above_limit_total") for worker in test.workers)
    checks.require(above == 0, f"{above} permits above the limit, says the coordinator")
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
