"""Each worker restarted within one second, again and again, by SIGTERM and by SIGKILL: no second above the max-rate."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 110
RATE = 300
ROUNDS = 4


def restart(test, worker, hard):
    """Ends the worker and starts it again at once; returns the new process, not ready yet."""
    worker.read_labels("billing")
    if hard:
        worker.kill()
    else:
        worker.stop()
    test.workers.remove(worker)
    test.ended.append(worker)
    return test.worker(worker.instance)


def all_labels(test):
    labels = test.labels("billing")
    for worker in test.ended:
        for label, used in worker.counted.get("billing", {}).items():
            labels[label] = labels.get(label, 0) + used
    return labels


def run(test):
    test.ended = []
    topic = test.topic(partitions=12)
    test.produce(topic, 16_000)
    sink = test.sink()
    test.deployment()
    test.rates.set(test.subscriptions(
        {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"}, instances=3), RATE)
    test.watch_labels("billing")
    test.fleet_of(3)
    system.eventually("deliveries run", lambda: len(sink.delivered()) > RATE, within=20)
    for number in range(ROUNDS):
        for instance in sorted(worker.instance for worker in test.workers):
            worker = next(worker for worker in test.workers if worker.instance == instance)
            restart(test, worker, hard=number % 2 == 1)
            # The next one goes down in the same or the next second, while this one comes up.
            system.until_phase(0.35)
        test.say(f"round {number + 1}: each worker was {'killed' if number % 2 else 'stopped'} and started")
    for worker in test.workers:
        worker.await_ready()
    first = system.next_label() + 1
    system.await_label(first + 2)

    labels, seconds = all_labels(test), sink.per_second()
    test.say(f"attempts by label: {[labels.get(label, 0) for label in range(min(labels), max(labels))]}")
    test.say(f"requests by second at the sink: {[seconds[second] for second in sorted(seconds)]}")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, seconds, workers=3, skew=sink.skew)
    checks.used_in_full(labels, RATE, first, first + 2)
    test.none_has_ended()
