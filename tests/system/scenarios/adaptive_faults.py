"""Adaptive shares: the coordinator is killed, then another worker stands still beyond its lease. No second above the max-rate;
deliveries go on without a pause, and all of the rate is in use again within 12 s of the kill."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 200
MESSAGES = 26_000
RATE = 300
SUCCESSOR = 8  # the session timeout of the coordinators' group, 6 s, and the claim
AGAIN = 12


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    sink = test.sink()
    test.deployment(shares="adaptive", membership="dynamic")
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"}), RATE)
    test.watch_labels("billing")
    test.fleet_of(3, prefix="any")
    test.await_owned(12)
    system.eventually("the limit is used in full", lambda: test.labels("billing").get(system.next_label() - 2, 0) >= 0.98 * RATE, within=30)

    name = test.workers[0].get_json("/fleet")["limits"][0]["coordinator"]
    coordinator = next(worker for worker in test.workers if worker.instance == name)
    others = [worker for worker in test.workers if worker is not coordinator]
    test.labels("billing")
    coordinator.kill()
    killed = int(system.time.time())
    test.say(f"{name}, the coordinator, is killed")

    def coordinated():
        names = {worker.get_json("/fleet")["limits"][0]["coordinator"] for worker in others}
        return names <= {worker.instance for worker in others}
    system.eventually("another one coordinates", coordinated, within=SUCCESSOR)
    test.say(f"another one coordinates after {system.time.time() - killed:.1f} s")
    system.await_label(killed + AGAIN + 3)
    labels = test.labels("billing")
    test.say(f"from the kill on: {[labels.get(label, 0) for label in range(killed, killed + AGAIN + 4)]}")
    # Each of the two others has about a third; what is lost of the third one's is for its lease's length.
    pauses = {label: labels.get(label, 0) for label in range(killed + 1, killed + AGAIN) if labels.get(label, 0) < 0.6 * RATE}
    checks.require(not pauses, f"the others did not go on at their shares: {pauses}")
    low = {label: labels.get(label, 0) for label in range(killed + AGAIN, killed + AGAIN + 3) if labels.get(label, 0) < 0.95 * RATE}
    checks.require(not low, f"not all of {RATE} in use {AGAIN} s after the kill: {low}")

    stopped = others[0]
    stopped.pause()
    test.say(f"{stopped.instance} stands still")
    paused_at = system.time.time()
    system.time.sleep(max(0.0, paused_at + 13 - system.time.time()))
    before = int(system.time.time())
    stopped.resume()
    continued_at = int(system.time.time())
    test.say(f"{stopped.instance} goes on")
    system.await_label(continued_at + 3)

    labels, seconds = test.labels("billing"), sink.per_second()
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    checks.never_above(test.rates, labels)
    # Requests whose permit was taken right before the stop arrive with the continuation.
    for second in {before, continued_at}:
        if second in seconds:
            seconds[second] -= min(64, seconds[second])
    checks.never_above_at_sink(test.rates, seconds, workers=3, skew=sink.skew)
    above = sum(worker.metric("posthorn_permits_above_limit_total") for worker in others)
    checks.require(above == 0, f"{above} permits above the limit, says the coordinator")
