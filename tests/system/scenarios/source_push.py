"""Three workers at 2000/s go to 500/s by a push to Central Dogma; fifty pushes are in force on all of them within a second each."""

import datetime
import json
import statistics

import checks
import config_servers
import posthorn_system as system

LIMIT_SECONDS = 110
MESSAGES = 40_000
WORKERS = 3
PUSHES = 50
IN_FORCE_WITHIN = 1.0


def run(test):
    with config_servers.CentralDogma(test.folder) as dogma:
        dogma.prepare()
        topic = test.topic(partitions=12)
        test.produce(topic, MESSAGES)
        sink = test.sink()
        test.deployment(subscriptions=dogma.source())

        def push(rate, number=0):
            return dogma.put({"billing.json": json.dumps({"instances": WORKERS, "subscriptions": [
                {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{rate}/s", "max_in_flight": 256,
                 "headers": {"x-push": str(number)}}]})})

        test.rates.set(push(2000), 2000)
        test.watch_labels("billing")
        test.fleet_of(WORKERS)
        first = system.next_label() + 1
        system.await_label(first + 1)
        system.until_phase(0.2)
        pushed = push(500)
        test.rates.set(pushed, 500)
        follows = int(pushed) + 1
        system.await_label(follows + 3)

        labels = test.labels("billing")
        seconds = sink.per_second()
        test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
        test.say(f"requests by second at the sink: {[seconds[second] for second in sorted(seconds)]}")
        checks.used_in_full(labels, 2000, first, first + 1)
        checks.used_in_full(labels, 500, follows, follows + 3)
        checks.never_above(test.rates, labels)
        checks.never_above_at_sink(test.rates, seconds, WORKERS, sink.skew)

        took = sorted(in_force_everywhere(test, push(500, number)) for number in range(1, PUSHES + 1))
        test.say(f"from push to in force on {WORKERS} workers, {PUSHES} times: median {statistics.median(took) * 1000:.0f} ms, "
                 f"maximum {took[-1] * 1000:.0f} ms")
        checks.require(took[-1] <= IN_FORCE_WITHIN, f"a push was in force only after {took[-1]:.2f} s")
        checks.never_above(test.rates, test.labels("billing"))
        test.none_has_ended()
        for worker in test.workers:
            worker.stop()


def in_force_everywhere(test, pushed):
    """Seconds until the last worker said that it took what was pushed."""
    seen = [None] * len(test.workers)

    def all_said():
        for index, worker in enumerate(test.workers):
            if seen[index] is None:
                seen[index] = next((at for at in map(accepted_at, reversed(worker.events("configuration accepted"))) if at > pushed), None)
        return all(seen)
    system.eventually("all workers have taken the push", all_said, within=10, every=0.02)
    return max(seen) - pushed


def accepted_at(entry):
    return datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00")).timestamp()
