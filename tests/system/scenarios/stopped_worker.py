"""A worker stopped (SIGSTOP) for 20 s and continued: no window above the max-rate, nothing lost, no stored offset stays back."""

import threading

import checks
import posthorn_system as system

LIMIT_SECONDS = 200
MESSAGES = 10_000
RATE = 300
STOPPED_SECONDS = 20
IN_FLIGHT = 32
# A write that was under way inside the stopped worker is sent when it goes on; the owners write theirs again 3 s after
# the rebalance in which it joins anew.
BACK_FOR = 10


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    sink = test.sink("--latency", "5ms-20ms")
    test.deployment(membership="dynamic")
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s",
                                       "max_in_flight": IN_FLIGHT}), RATE)
    test.watch_labels("billing")
    test.fleet_of(3, prefix="any")
    system.eventually("all partitions have an owner", lambda: sum(
        worker.metric("posthorn_group_partitions_owned") for worker in test.workers) == 12, within=30)

    history, done = [], threading.Event()

    def read_offsets():
        while not done.wait(0.5):
            try:
                history.append((system.time.time(), test.committed("billing")))
            except OSError:
                pass
    reader = threading.Thread(target=read_offsets, daemon=True)
    reader.start()
    try:
        system.eventually("deliveries run", lambda: len(sink.delivered()) > RATE * 2, within=20)
        stopped = test.workers[0]
        stopped.pause()
        paused_at = system.time.time()
        test.say(f"{stopped.instance} is stopped")
        others = test.workers[1:]
        system.eventually("the others have taken over its partitions", lambda: sum(
            worker.metric("posthorn_group_partitions_owned") for worker in others) == 12, within=STOPPED_SECONDS)
        test.say("the others own everything")
        system.time.sleep(max(0.0, paused_at + STOPPED_SECONDS - system.time.time()))
        stopped.resume()
        continued_at = system.time.time()
        test.say(f"{stopped.instance} goes on")
        system.eventually("it is ready again and owns partitions", lambda: stopped.is_ready() and stopped.metric(
            "posthorn_group_partitions_owned") > 0, within=30)
        system.eventually("every message is delivered", lambda: len(sink.delivered()) >= MESSAGES, within=45, every=0.3)
        test.say("every message is delivered")
        system.eventually("the stored offsets reach the end", lambda: sum(test.committed("billing").values()) == MESSAGES, within=10)
    finally:
        done.set()
        reader.join(5)
    history.append((system.time.time(), test.committed("billing")))

    labels, seconds = test.labels("billing"), sink.per_second()
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    checks.never_above(test.rates, labels)
    # Requests whose permit was taken right before the stop arrive with the continuation: at most those in flight.
    for second in (int(continued_at), int(continued_at) + 1):
        if second in seconds:
            seconds[second] -= min(IN_FLIGHT, seconds[second])
    checks.never_above_at_sink(test.rates, seconds, workers=3, skew=sink.skew)
    checks.everything_finished(test.produced(topic), sink.requests(), test.dead_letters())
    checks.require(len(history) > 20, f"the stored offsets were read only {len(history)} times")
    checks.not_back_for(BACK_FOR, history)
    test.none_has_ended()
