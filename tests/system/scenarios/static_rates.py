"""Three workers share 2000/s exactly and in full, and follow a change to 500/s and to 4000/s within one window."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 110
MESSAGES = 36_000
WORKERS = 3


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    test.say(f"{MESSAGES} messages are in {topic}")
    sink = test.sink()
    test.deployment()

    def set_rate(rate):
        at = test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{rate}/s",
                                 "max_in_flight": 256}, instances=WORKERS)
        test.rates.set(at, rate)
        test.say(f"max_rate: {rate}/s")
        return int(at)

    set_rate(2000)
    test.watch_labels("billing")
    test.fleet_of(WORKERS)
    test.say("all workers are ready")

    spans = []  # rate, first and last label that it must fill
    first = system.next_label() + 1
    system.await_label(first + 2)
    spans.append((2000, first, first + 2))
    for rate, seconds in ((500, 3), (4000, 2)):
        system.until_phase(0.2)
        changed = set_rate(rate)
        system.await_label(changed + seconds)
        spans.append((rate, changed + 1, changed + seconds))

    system.eventually("every message is delivered", lambda: len(sink.delivered()) >= MESSAGES, within=30, every=0.3)
    labels = test.labels("billing")
    test.say(f"attempts by label: {[labels[label] for label in sorted(labels)]}")
    seconds = sink.per_second()
    test.say(f"requests by second at the sink: {[seconds[second] for second in sorted(seconds)]}")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, seconds, WORKERS, sink.skew)
    for rate, first, last in spans:
        checks.used_in_full(labels, rate, first, last)
        # The sink follows: in the middle of a span its count differs by what spills over a boundary at most.
        for second in range(first, last):
            spill = checks.skew_bound(rate, WORKERS, sink.skew(second)) - rate
            checks.require(abs(seconds[second] - rate) <= spill, f"{seconds[second]} requests at the sink in {second}, not {rate} +- {spill}")
    # A permit is one request; one whose request was still connecting when its window ended was replaced, and counts as not sent.
    unsent = sum(int(worker.metric("posthorn_permits_not_sent_total", subscription="billing")) for worker in test.workers)
    checks.require(sum(labels.values()) - unsent == len(sink.requests()),
                   f"{sum(labels.values())} permits, {unsent} of them not sent, for {len(sink.requests())} requests")
    checks.everything_finished(test.produced(topic), sink.requests(), test.dead_letters())
    checks.finished_once(sink.requests(), test.dead_letters())
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
