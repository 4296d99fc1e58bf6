"""At 1/s, with workers restarted within a second and N raised from 3 to 5: never two attempts for one second."""

import checks
import posthorn_system as system
import quick_restarts

LIMIT_SECONDS = 110


def run(test):
    test.ended = []
    topic = test.topic(partitions=12)
    test.produce(topic, 600)
    sink = test.sink()
    test.deployment()

    def set_instances(count):
        return test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "1/s"}, instances=count)

    test.rates.set(set_instances(3), 1)
    test.watch_labels("billing")
    test.fleet_of(3)
    system.eventually("deliveries run", lambda: len(sink.requests()) >= 2, within=20)

    def restart_all(hard):
        for instance in sorted(worker.instance for worker in test.workers):
            worker = next(worker for worker in test.workers if worker.instance == instance)
            quick_restarts.restart(test, worker, hard)
            system.until_phase(0.1)

    restart_all(hard=True)
    system.until_phase(0.5)
    set_instances(5)
    test.say("instances: 5")
    for number in (3, 4):
        test.worker(f"orders-{number}")
    restart_all(hard=False)
    restart_all(hard=True)
    for worker in test.workers:
        worker.await_ready()
    system.eventually("every worker owns partitions", lambda: min(
        worker.metric("posthorn_group_partitions_owned") for worker in test.workers) > 0, within=30)
    first = system.next_label() + 1
    system.await_label(first + 9)

    labels, requests = quick_restarts.all_labels(test), sink.requests()
    test.say(f"attempts by label: {dict(sorted(labels.items()))}")
    checks.never_above(test.rates, labels)
    checks.exactly(labels, 1, first, first + 9)
    # Killed workers take their count with them, the sink does not: over any span it holds at most one more than seconds.
    times = [request.time for request in requests]
    for begin in range(len(times)):
        for end in range(begin + 2, len(times)):
            spanned = int(times[end]) - int(times[begin]) + 1
            checks.require(end - begin + 1 <= spanned + 1, f"{end - begin + 1} requests in {spanned} seconds from {times[begin]:.3f}")
    test.none_has_ended()
